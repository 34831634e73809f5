"""`billiard`: our own renderer of the billiard set, in its published layout.

`{train,valid,test}/<index>.png` and `<index>.json`, a list of balls with

    position   x, y, z in ball radii from the table's middle
    number     1 to 9
    color      one of the six names the tasks know
    bbox       left, top, right, bottom in pixels, right and bottom exclusive (ours: to measure where a model looks)

Of 20 pictures 8 are train, 2 valid and 10 test, as published. Four to eight balls lie anywhere on the table, no number
hidden by another ball. A layout is drawn again until the leftmost and the rightmost ball are the same by `position` and
by picture, each with a clear lead: a perspective camera can show a far ball left of a nearer one with a smaller x.
"""

import io
import json
import zlib
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int8
from numpy import ndarray
from PIL import Image

from saccade.data.records import DataError
from saccade.data.rendering.balls import DISC, Ball, ball_box, paint_ball
from saccade.data.rendering.table_camera import TableCamera
from saccade.data.rendering.table_room import ROOMS, Room, draw_room, paint_room, to_pocket
from saccade.data.rendering.table_shadows import paint_shadows

SIZE = (1000, 1000)
SMALLEST = 112  # pixels a side; in fewer, eight legible balls hardly find a place
COLOURS = {  # linear light
    "red": (0.58, 0.020, 0.022),
    "orange": (0.80, 0.210, 0.014),
    "yellow": (0.84, 0.540, 0.020),
    "green": (0.012, 0.200, 0.060),
    "blue": (0.012, 0.060, 0.420),
    "purple": (0.160, 0.022, 0.260),
}
_SPLITS = ("train", "test", "valid", "train", "test", "train", "test", "test", "train", "test")


class Table(NamedTuple):
    """A picture's room, its camera, its balls and their colors' names."""

    room_number: int
    room: Room
    camera: TableCamera
    balls: tuple[Ball, ...]
    colors: tuple[str, ...]
    exposure: float


class Rendering(NamedTuple):
    """The picture and, per pixel, 0, the place of the ball seen there (from 1), or that + `DISC_ID` on its disc."""

    image: Image.Image
    ids: Int8[ndarray, "H W"]


def draw_table(index: int, *, seed: int, size: tuple[int, int] = SIZE) -> Table:
    """The table of picture `index`."""
    if min(size) < SMALLEST:
        raise DataError(
            f"a table of {size[0]}×{size[1]} px has no room for eight balls: ask for at least {SMALLEST} px"
        )
    rng = np.random.default_rng((seed, index))
    number = int(rng.integers(ROOMS))
    room = draw_room(number, size)
    shift = rng.integers(-room.spread_px, room.spread_px + 1, 2).tolist()
    camera = room.camera.moved(shift[0] - room.spread_px, shift[1] - room.spread_px)
    count = int(rng.integers(4, 9))
    names = tuple(list(COLOURS)[int(k)] for k in rng.integers(len(COLOURS), size=count))
    looks = [(int(rng.integers(1, 10)), _jitter(rng, COLOURS[name]), float(rng.normal(0, 0.12))) for name in names]
    exposure = float(rng.uniform(0.88, 1.1))
    for _ in range(1000):
        places = _lay(rng, room, camera, count, size)
        if len(places) == count and _ends_agree(camera, places):
            balls = tuple(Ball(x, y, *look) for (x, y), look in zip(places.tolist(), looks, strict=True))
            return Table(number, room, camera, balls, names, exposure)
    raise DataError(f"found no way to lay {count} balls on a table of {size[0]}×{size[1]} px: ask for larger pictures")


def _jitter(rng: np.random.Generator, color: tuple[float, float, float]) -> tuple[float, float, float]:
    r, g, b = (float(c * k) for c, k in zip(color, np.exp(rng.normal(0, 0.10, 3)), strict=True))
    return r, g, b


def _lay(
    rng: np.random.Generator, room: Room, camera: TableCamera, count: int, size: tuple[int, int]
) -> Float[ndarray, "n 2"]:
    """Up to `count` places, one after the other, each apart from the ones before and hiding none of their numbers."""
    # 2.2 radii from the near cushion, which would hide the foot of a ball that lies closer.
    low, high = (1.15 - room.half_x, 2.2 - room.half_y), (room.half_x - 1.15, room.half_y - 1.15)
    candidates = rng.uniform(low, high, (40 * count, 2))
    places = np.empty((0, 2))
    for place in candidates[to_pocket(room, *candidates.T) > 2.7]:
        if _in_picture(camera, place, size) and _apart(camera, place, places):
            places = np.append(places, place[None], 0)
            if len(places) == count:
                break
    return places


def _in_picture(camera: TableCamera, place: ndarray, size: tuple[int, int]) -> bool:
    box = ball_box(camera, *place.tolist())
    return min(box.left, box.top) >= 0 and box.right <= size[1] and box.bottom <= size[0]


def _apart(camera: TableCamera, place: ndarray, others: ndarray) -> bool:
    """Whether a ball touches no other, neither hides another's number nor has its own hidden."""
    if (np.hypot(*(others - place).T) < 2.05).any():
        return False
    seen = _see(camera, np.append(others, place[None], 0))
    column, row, depth = seen[:-1].T - seen[-1][:, None]
    radius, own_radius = camera.focal_px / seen[:-1, 2], camera.focal_px / seen[-1, 2]
    # A sphere off the middle of the picture looks stretched, hence a little more than its radius.
    hides, hidden = 1.06 * own_radius + (DISC + 0.06) * radius, 1.06 * radius + (DISC + 0.06) * own_radius
    return bool((np.hypot(column, row) > np.where(depth > 0, hides, hidden)).all())


def _see(camera: TableCamera, places: Float[ndarray, "n 2"]) -> Float[ndarray, "n 3"]:
    """Column, row and depth of the centers of balls at `places`."""
    return camera.project(np.append(places, np.ones((len(places), 1)), 1))


def _ends_agree(camera: TableCamera, places: Float[ndarray, "n 2"]) -> bool:
    """Whether leftmost and rightmost are the same balls on the table and in the picture, each with a clear lead."""
    x, (column, _, depth) = places[:, 0], _see(camera, places).T
    same = x.argmin() == column.argmin() and x.argmax() == column.argmax()
    return bool(same) and _clear_ends(x, 0.6) and _clear_ends(column, 0.4 * camera.focal_px / depth.max())


def _clear_ends(values: ndarray, lead: float) -> bool:
    ordered = np.sort(values)
    return bool(min(ordered[1] - ordered[0], ordered[-1] - ordered[-2]) > lead)


def render(table: Table, size: tuple[int, int] = SIZE) -> Rendering:
    """The picture of a table."""
    height, width = size
    base = paint_room(table.room_number, size)
    left, top = (round(a - b) for a, b in zip(table.room.camera.center_px, table.camera.center_px, strict=True))
    picture = base[top : top + height, left : left + width].copy()
    ids = np.zeros(size, np.int8)
    balls = list(table.balls)
    paint_shadows(picture, table.room, table.camera, balls)
    depth = {ball: float((ball.center - table.camera.eye) @ table.camera.forward) for ball in balls}
    for ball in sorted(balls, key=lambda ball: -depth[ball]):
        paint_ball(picture, ids, table.room, table.camera, ball, balls)
    curve = (np.arange(256) * table.exposure).clip(0, 255).astype(int).tolist()
    return Rendering(Image.fromarray(picture).point(curve * 3), ids)


def describe(table: Table) -> list[dict]:
    """The balls as the published JSON files list them, with their boxes."""
    return [
        {
            "position": [round(ball.x, 4), round(ball.y, 4), 1.0],
            "number": ball.number,
            "color": name,
            "bbox": list(ball_box(table.camera, ball.x, ball.y)),
        }
        for ball, name in zip(table.balls, table.colors, strict=True)
    ]


def paths(index: int) -> tuple[str, ...]:
    """The files of picture `index`."""
    split = _SPLITS[index % len(_SPLITS)]
    return f"{split}/{index}.png", f"{split}/{index}.json"


def files(index: int, *, seed: int, size: tuple[int, int] = SIZE) -> dict[str, bytes]:
    """Picture `index` and its list of balls."""
    table = draw_table(index, seed=seed, size=size)
    buffer = io.BytesIO()
    # Run-length deflate: on these smooth pictures faster than the default and no larger.
    render(table, size).image.save(buffer, "PNG", compress_level=1, compress_type=zlib.Z_RLE)
    picture, balls = paths(index)
    return {picture: buffer.getvalue(), balls: json.dumps(describe(table), indent=1).encode()}
