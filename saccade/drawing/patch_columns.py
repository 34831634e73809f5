"""Several looks → the paper's qualitative figure: a column for each image, what was cut out of it below."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from saccade.drawing.overlay import CHOSEN, Caption
from saccade.looking import Look

COLUMN_IN, TITLE_IN = 1.6, 0.4
MOST = 8  # patches of an image; more would be too small to see


def patch_columns(looks: Sequence[Look], captions: Sequence[Caption]) -> Figure:
    """Each image with its boxes and, below, its patches, best first; the answer is its title, green or red."""
    rows = min(MOST, max(len(look.crops) for look in looks))
    tallest = max(look.size[0] / look.size[1] for look in looks)
    heights = [tallest, *[max(look.crops.shape[1] / look.crops.shape[2] for look in looks)] * rows]
    width, height = COLUMN_IN * len(looks), COLUMN_IN * sum(heights)
    figure = Figure(figsize=(width, height + TITLE_IN), facecolor="white")
    room = {
        "left": 0.0,
        "right": 1.0,
        "bottom": 0.0,
        "top": height / (height + TITLE_IN),
        "wspace": 0.04,
        "hspace": 0.02,
    }
    places: Any = figure.subplots(1 + rows, len(looks), squeeze=False, height_ratios=heights, gridspec_kw=room)
    for axes in places.flat:
        axes.axis("off")
    for (top, *below), look, caption in zip(places.T, looks, captions, strict=True):
        _draw_image(top, look, caption)
        for axes, crop in zip(below, look.crops, strict=False):
            _draw(axes, crop)
    return figure


def _draw_image(axes: Axes, look: Look, caption: Caption) -> None:
    height, width = look.size
    _draw(axes, look.picture, extent=(0, width, height, 0))
    for left, top, right, bottom in look.boxes[:MOST]:
        axes.add_patch(Rectangle((left, top), right - left, bottom - top, fill=False, ec=CHOSEN, lw=1.2))
    axes.set(xlim=(0, width), ylim=(height, 0))
    said = caption.predicted if caption.predicted == caption.truth else f"{caption.predicted}, but\n{caption.truth}"
    axes.set_title(said, fontsize=6, color=caption.color)


def _draw(axes: Axes, pixels: UInt8[np.ndarray, "h w C"], **options: Any) -> None:
    axes.imshow(pixels[..., 0] if pixels.shape[-1] == 1 else pixels, cmap="gray", aspect="equal", **options)
