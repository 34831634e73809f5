"""`Look` → a picture for people: the score map over the image, the chosen boxes, the patches at the side, the answer.

    figure = overlay(look, Caption("70", 0.98, truth="70"))
    figure.savefig("where_it_looked.png", dpi=200)

The picture and its patches are laid out flush, whatever their shapes.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from jaxtyping import Float, Int, UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from saccade.drawing.layout import WIDTH_IN, arrange, place_badges
from saccade.looking import Look
from saccade.tasks.labels import split_labels

CAPTION_IN = 0.42
MAX_CROPS = 16  # more would be too small to see
SMALL_PX = 600  # below it, pixels would show as squares
RIGHT, WRONG, NEUTRAL = "#1a7f37", "#c62828", "#333333"
CHOSEN, TRUTH = "white", "#00e5ff"
COLOR_MAP = "inferno"


class Caption(NamedTuple):
    """The answer: green if it is true, red if not, dark if nobody knows."""

    predicted: str
    confidence: float
    truth: str | None = None

    @property
    def text(self) -> str:
        """The answer in words.

        >>> Caption("50", 0.871, truth="70").text
        '✗ 50 (87% sure), but it is 70'
        """
        sure = "" if math.isnan(self.confidence) else f" ({_percent(self.confidence)} sure)"
        said, truth = f"{_named(self.predicted)}{sure}", self.truth and _named(self.truth)
        if self.truth is None:
            return said
        if math.isnan(self.confidence):
            return f"{said}; it is {truth}"
        return f"✓ {said}" if self.truth == self.predicted else f"✗ {said}, but it is {truth}"

    @property
    def color(self) -> str:
        """Green, red or dark."""
        return NEUTRAL if self.truth is None else RIGHT if self.truth == self.predicted else WRONG


def _named(label: str) -> str:
    """As people read it: a lone separator is none of several labels."""
    return label if split_labels(label) else "no label"


def overlay(
    look: Look,
    caption: Caption | None = None,
    *,
    tags: Sequence[str] = (),
    kinds: Sequence[str] = (),
    width_in: float = WIDTH_IN,
) -> Figure:
    """A figure of where the model looked. Without a caption there is no text outside of the pictures.

    tags:  what each box speaks for, beside its number; kinds: what each annotated box shows.

    Letters and lines have a size of their own: on fewer inches they are larger relative to the picture.
    """
    crops = look.crops[:MAX_CROPS]
    layout = arrange(look.size, crops.shape[1:3], len(crops), width_in=width_in)
    room = CAPTION_IN if caption else 0.0
    width, height = layout.size[0], layout.size[1] + room
    figure = Figure(figsize=(width, height), facecolor="white" if caption else "none")
    side = _add_axes(figure, (0.0, 0.0, width, height))
    _draw_crops(side, crops, look.box_scores, layout.crops, tags)
    side.set(xlim=(0, width), ylim=(0, height))  # imshow sets its own
    _draw_picture(_add_axes(figure, layout.picture), look, layout.picture[2], tags, kinds)
    if caption:
        _write_caption(figure, caption, truth=len(look.truth) > 0)
    return figure


def _add_axes(figure: Figure, place: Sequence[float]) -> Axes:
    (width, height), (left, bottom, wide, high) = figure.get_size_inches(), place
    axes = figure.add_axes((left / width, bottom / height, wide / width, high / height))
    axes.set_axis_off()
    return axes


def _draw_crops(
    axes: Axes,
    crops: UInt8[np.ndarray, "K P Q 3"],
    scores: Float[np.ndarray, " slots"],
    places: Sequence[tuple[float, float, float, float]],
    tags: Sequence[str],
) -> None:
    """All patches in axes that span the figure, in inches: axes of their own would take most of the time."""
    for number, (crop, (left, bottom, width, height)) in enumerate(zip(crops, places, strict=True)):
        extent = (left, left + width, bottom, bottom + height)
        axes.imshow(crop, extent=extent, interpolation="bicubic", aspect="auto")
        if number < len(scores):
            corner = (left, bottom + height - 0.025)  # the badge is a little higher than its letters
            tag = f"  {tags[number]}" if number < len(tags) and tags[number] else ""
            _badge(axes, corner, f" {number + 1}  {scores[number]:.2f}{tag}", ha="left", va="top")


def _whole(size: Sequence[int]) -> tuple[float, float, float, float]:
    return 0.0, float(size[1]), float(size[0]), 0.0


def _draw_picture(axes: Axes, look: Look, width_in: float, tags: Sequence[str], kinds: Sequence[str]) -> None:
    small = max(look.size) < SMALL_PX
    smooth = "bicubic" if small else "antialiased"
    axes.imshow(look.picture, extent=_whole(look.size), interpolation=smooth, aspect="auto")
    if look.scores.size:
        left, top, right, bottom = look.extent
        axes.imshow(heat(look.scores), extent=(left, right, bottom, top), interpolation="bilinear", aspect="auto")
    axes.set(xlim=(0, look.size[1]), ylim=(look.size[0], 0))
    for box, strength in zip(look.boxes, look.strength, strict=True):
        if strength > 0.02:
            _draw_box(axes, box, CHOSEN, alpha=float(strength))
    for box in look.truth:
        _draw_box(axes, box, TRUTH, linestyle=(0, (3, 2)))
    for box, kind in zip(look.truth, kinds, strict=False):
        _name_truth(axes, box, kind)
    numbered = look.boxes[: min(len(look.box_scores), MAX_CROPS)]
    for number, (x, y) in enumerate(place_badges(numbered, look.truth, look.size, look.size[1] / width_in)):
        _lead(axes, (x, y), numbered[number])
        _badge(axes, (x, y), str(number + 1), ha="center", va="center")


def heat(scores: Float[np.ndarray, "rows cols"]) -> Float[np.ndarray, "rows cols 4"]:
    """Scores in [0, 1] as colors: brighter is higher, low ones let the image through, and gray is no candidate."""
    nothing = np.isnan(scores)
    scores = np.nan_to_num(scores).clip(0, 1)
    colors = matplotlib.colormaps[COLOR_MAP](0.15 + 0.8 * scores)
    colors[..., 3] = 0.75 * scores**2
    colors[nothing] = (0.5, 0.5, 0.5, 0.35)
    return colors


def _draw_box(axes: Axes, box: Int[np.ndarray, "4"], color: str, **style: Any) -> None:
    left, top, right, bottom = (int(edge) for edge in box)
    # A dark rim, for a white line on a white wall.
    rim = [withStroke(linewidth=3.0, foreground="black")]
    axes.add_patch(
        Rectangle(
            (left, top), right - left, bottom - top, fill=False, edgecolor=color, lw=1.4, path_effects=rim, **style
        )
    )


def _name_truth(axes: Axes, box: Int[np.ndarray, "4"], kind: str) -> None:
    style: dict[str, Any] = {"fontsize": 7, "color": TRUTH, "parse_math": False, "clip_on": True}
    rim = [withStroke(linewidth=2.0, foreground="black")]
    axes.text((box[0] + box[2]) / 2, box[3], kind, ha="center", va="top", path_effects=rim, **style)


def _lead(axes: Axes, spot: tuple[float, float], box: Int[np.ndarray, "4"]) -> None:
    """A thin line from a number to the nearest point of its box."""
    near = (min(max(spot[0], box[0]), box[2]), min(max(spot[1], box[1]), box[3]))
    axes.plot(*zip(spot, near, strict=True), color="black", lw=0.8, alpha=0.75, clip_on=True)


def _badge(axes: Axes, spot: tuple[float, float], text: str, *, ha: str, va: str) -> None:
    box = {"boxstyle": "square,pad=0.15", "facecolor": "black", "edgecolor": "none", "alpha": 0.75}
    axes.text(*spot, text, ha=ha, va=va, fontsize=7.5, color="white", bbox=box, clip_on=True, parse_math=False)


def _write_caption(figure: Figure, caption: Caption, *, truth: bool) -> None:
    width, height = figure.get_size_inches()
    y, side = 1 - CAPTION_IN / 2 / height, 0.08 / width
    key = "dashed: as annotated" if truth else ""
    figure.text(1 - side, y, key, va="center", ha="right", fontsize=9, color=NEUTRAL, parse_math=False)
    # About 0.0095 inches to a letter and point: long names of classes get small letters.
    fontsize = min(13.0, (width - 0.3 - 0.075 * len(key)) / (0.0095 * len(caption.text)))
    # Classes may be called anything: dollars in their names do not begin a formula.
    style = {"weight": "bold", "color": caption.color, "parse_math": False}
    figure.text(side, y, caption.text, va="center", fontsize=fontsize, **style)


def _percent(share: float) -> str:
    return f"{math.floor(100 * share)}%" if share < 1 else "100%"
