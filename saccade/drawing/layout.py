"""Where things go in a picture of a look: the image and its patches flush with one another, numbers off each other.

Nothing is drawn here: lengths are inches, and places in the image its pixels.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

WIDTH_IN, HEIGHT_IN, GAP_IN = 10.0, 7.5, 0.06
BADGE_IN = (0.2, 0.18)


class Layout(NamedTuple):
    """Inches: the figure's width and height; left, bottom, width and height of the picture and of each patch."""

    size: tuple[float, float]
    picture: tuple[float, float, float, float]
    crops: list[tuple[float, float, float, float]]


def arrange(size: tuple[int, int], crop: tuple[int, int], count: int, *, width_in: float = WIDTH_IN) -> Layout:
    """Where the picture of `size` (height, width) and its `count` patches go, on `width_in` inches or less.

    Patches stand to the right, in as many columns as give them about a third of the width if they are to end level
    with the picture; below it if the picture is much wider than high.
    """
    slope, crop_slope = size[0] / size[1], crop[0] / crop[1]
    if count == 0:
        width, height = WIDTH_IN, WIDTH_IN * slope
        return _fit(Layout((width, height), (0, 0, width, height), []), width_in)
    if slope < 0.45:
        return _fit(_crops_below(slope, crop_slope, count), width_in)
    choices = [_crops_beside(slope, crop_slope, count, columns) for columns in range(1, count + 1)]
    blank = [-count % columns / count for columns in range(1, count + 1)]
    costs = [abs(c.picture[2] / WIDTH_IN - 0.64) + gap for c, gap in zip(choices, blank, strict=True)]
    return _fit(choices[int(np.argmin(costs))], width_in)


def _crops_beside(slope: float, crop_slope: float, count: int, columns: int) -> Layout:
    rows = math.ceil(count / columns)
    # Height of the block = height of the picture, solved for the width of one patch.
    steepness = rows * crop_slope + columns * slope
    crop = max(((WIDTH_IN - columns * GAP_IN) * slope - (rows - 1) * GAP_IN) / steepness, 0.1)
    width = WIDTH_IN - columns * (crop + GAP_IN)
    height = max(width * slope, 0.1)
    places = _tile((width + GAP_IN, height), crop, crop * crop_slope, columns, count)
    return Layout((WIDTH_IN, height), (0, 0, width, height), places)


def _crops_below(slope: float, crop_slope: float, count: int) -> Layout:
    columns = max(count if count <= 8 else math.ceil(count / 2), 5)
    crop = (WIDTH_IN - (columns - 1) * GAP_IN) / columns
    block = math.ceil(count / columns) * (crop * crop_slope + GAP_IN)
    height = WIDTH_IN * slope
    places = _tile((0.0, block - GAP_IN), crop, crop * crop_slope, columns, count)
    return Layout((WIDTH_IN, height + block), (0, block, WIDTH_IN, height), places)


def _tile(left_top: tuple[float, float], width: float, height: float, columns: int, count: int) -> list[Any]:
    left, top = left_top
    cells = (divmod(number, columns) for number in range(count))
    return [(left + j * (width + GAP_IN), top - i * (height + GAP_IN) - height, width, height) for i, j in cells]


def _fit(layout: Layout, width_in: float) -> Layout:
    """The same in another size, smaller still if it would be too high for a page."""
    scale = width_in / WIDTH_IN * min(1.0, HEIGHT_IN / layout.size[1])
    numbers = [tuple(scale * side for side in place) for place in (layout.size, layout.picture, *layout.crops)]
    return Layout(numbers[0], numbers[1], numbers[2:])  # pyright: ignore[reportArgumentType]


def place_badges(
    boxes: Int[np.ndarray, "K 4"], avoid: Int[np.ndarray, "R 4"], size: tuple[int, int], px_per_in: float
) -> list[tuple[float, float]]:
    """A center for the number of each box: as near to a corner as it can be without hiding a number or a box.

    >>> none = np.zeros((0, 4), int)
    >>> place_badges(np.array([[40, 40, 60, 60]]), none, (100, 100), 50)  # above the upper left corner
    [(45.0, 35.5)]
    """
    wide, high = BADGE_IN[0] * px_per_in, BADGE_IN[1] * px_per_in
    solid = [tuple(box) for box in np.concatenate([boxes, avoid]).tolist()]
    taken: list[tuple[float, float]] = []

    def cost(spot: tuple[float, float, float]) -> float:
        area = (spot[0] - wide / 2, spot[1] - high / 2, spot[0] + wide / 2, spot[1] + high / 2)
        numbers = [(x - wide / 2, y - high / 2, x + wide / 2, y + high / 2) for x, y in taken]
        hidden = 10 * sum(_common(area, other) for other in numbers) + sum(_common(area, other) for other in solid)
        return hidden / (wide * high) + 0.3 * spot[2]

    for box in boxes.tolist():
        x, y, _ = min(_spots(box, size, wide, high), key=cost)
        taken.append((x, y))
    return taken


def _spots(box: Sequence[int], size: tuple[int, int], wide: float, high: float) -> list[tuple[float, float, float]]:
    """Places to choose from, each with its distance in badges: the corners outside, inside, then rings around."""
    left, top, right, bottom = box
    spots = [
        (x, y, 0.01 * number)
        for number, y in enumerate((top - high / 2, bottom + high / 2, top + high / 2, bottom - high / 2))
        for x in (left + wide / 2, right - wide / 2)
    ]
    for ring in range(1, 6):
        for angle in np.linspace(0, 2 * math.pi, 16, endpoint=False):
            across, down = (right - left) / 2 + ring * 1.1 * wide, (bottom - top) / 2 + ring * 1.1 * high
            x, y = (left + right) / 2 + across * math.cos(angle), (top + bottom) / 2 + down * math.sin(angle)
            spots.append((x, y, float(ring)))
    return [
        (min(max(x, wide / 2), size[1] - wide / 2), min(max(y, high / 2), size[0] - high / 2), far)
        for x, y, far in spots
    ]


def _common(one: Sequence[float], other: Sequence[float]) -> float:
    across, down = min(one[2], other[2]) - max(one[0], other[0]), min(one[3], other[3]) - max(one[1], other[1])
    return max(0.0, across) * max(0.0, down)
