"""A billiard table in its room, without balls: cloth, cushions, rails, pockets, floor, under a row of lamps.

A table consists of planes, so each pixel's ray is cut with the cloth, the rails' top, the apron and the floor, and what
it shows follows from where it meets them. A pixel that looks between the rails but misses the cloth sees a cushion's
face. Painting a room takes a good part of a second, so there are `ROOMS` of them, kept once painted; a picture shows a
shifted part of one.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, UInt8
from numpy import ndarray

from saccade.data.rendering.pixel_noise import TILE, fractal, sample, smoothstep
from saccade.data.rendering.table_camera import TableCamera, look_at

ROOMS = 8
_BAND = 64
RAIL_Z = 1.35  # the height of cushions and rails
_CUSHION, _WOOD, _APRON, _FLOOR_Z = 0.9, 2.0, 4.5, -16.0

Color = tuple[float, float, float]  # linear light, 0 … 1


class Lamps(NamedTuple):
    """A row of equal rectangular lamps over the table: centers, half sides, brightness."""

    centers: Float[ndarray, "n 3"]
    half_x: float
    half_y: float
    power: float


class Room(NamedTuple):
    """A table, its light and its camera; `half_x` and `half_y` are half the cloth's sides in ball radii."""

    camera: TableCamera
    half_x: float
    half_y: float
    cloth: Color
    wood: Color
    floor: Color
    lamps: Lamps
    window: float  # x of the direction in which the far wall has its window
    spread_px: int  # the painted picture is larger than what is shown by this much on each side


def draw_room(number: int, size: tuple[int, int]) -> Room:
    """Room `number` of `ROOMS` for pictures of `size` (height, width)."""
    rng = np.random.default_rng((number, 77))
    height, width = size
    # A ball is 56 px wide at 1000²; smaller pictures show fewer ball widths, so that the numbers stay legible.
    radius_px = 28 * math.sqrt(min(size) / 1000)
    pitch = float(rng.uniform(0.82, 1.05))
    half_x = 0.37 * width / radius_px
    half_y = 0.34 * height / radius_px / math.sin(pitch)
    distance = 3.4 * max(half_x, half_y) * float(rng.uniform(0.9, 1.15))
    spread = max(int(0.03 * min(size)), 1)
    center = (width / 2 + spread, height * 0.5 + spread)
    target = np.array([0.0, -0.04 * half_y, 0.0])
    yaw = float(rng.uniform(-0.10, 0.10))
    camera = look_at(target, pitch=pitch, yaw=yaw, distance=distance, focal_px=radius_px * distance, center_px=center)
    cloths = (
        (0.014, 0.110, 0.048),
        (0.022, 0.120, 0.036),
        (0.010, 0.075, 0.062),
        (0.012, 0.055, 0.165),
        (0.11, 0.010, 0.022),
    )
    woods = ((0.16, 0.055, 0.025), (0.24, 0.11, 0.045), (0.07, 0.03, 0.018), (0.30, 0.17, 0.08))
    floors = ((0.10, 0.07, 0.05), (0.05, 0.05, 0.055), (0.08, 0.03, 0.03), (0.12, 0.10, 0.08))
    floor = floors[int(rng.integers(4))]
    lamps = _draw_lamps(rng, half_x, half_y)
    window = float(rng.uniform(-0.4, 0.4))
    return Room(camera, half_x, half_y, cloths[number % 5], woods[number % 4], floor, lamps, window, spread)


def _draw_lamps(rng: np.random.Generator, half_x: float, half_y: float) -> Lamps:
    count = int(rng.integers(2, 4))
    along = np.linspace(-0.55, 0.55, count)
    height = 0.95 * max(half_x, half_y) * float(rng.uniform(0.85, 1.15))
    lengthways = bool(rng.random() < 0.5)
    x = along * half_x if lengthways else np.full(count, float(rng.uniform(-0.2, 0.2)) * half_x)
    y = np.full(count, float(rng.uniform(-0.2, 0.2)) * half_y) if lengthways else along * half_y
    sides = (0.30, 0.10) if lengthways else (0.10, 0.30)
    centers = np.stack([x, y, np.full(count, height)], -1)
    return Lamps(centers, sides[0] * half_x, sides[1] * half_y, 2.7 / count)


def encode(light: ndarray) -> ndarray:
    """Linear light → 8-bit values (0 … 255, as floats) with a soft shoulder instead of clipped highlights."""
    light = np.maximum(light, 0)
    return 255 * (1.5 * light * (1 + light / 9) / (1 + 0.9 * light)) ** np.float32(1 / 2.0)


@lru_cache(maxsize=ROOMS)
def paint_room(number: int, size: tuple[int, int]) -> UInt8[ndarray, "H W 3"]:
    """The empty room, larger than `size` by `spread_px` on each side."""
    room = draw_room(number, size)
    height, width = size[0] + 2 * room.spread_px, size[1] + 2 * room.spread_px
    picture = np.empty((height, width, 3), np.uint8)
    columns = np.arange(width, dtype=np.float32)[None, :] + 0.5
    for top in range(0, height, _BAND):
        rows = np.arange(top, min(top + _BAND, height), dtype=np.float32)[:, None] + 0.5
        light = _look(room, columns, rows)
        picture[top : top + _BAND] = encode(light).clip(0, 255).astype(np.uint8).transpose(1, 2, 0)
    picture.flags.writeable = False
    return picture


def _look(room: Room, columns: ndarray, rows: ndarray) -> ndarray:
    """Linear light of a band of pixels, 3 h W: the floor, then the table over it from low to high."""
    camera = room.camera
    light = _floor(room, *camera.on_plane(columns, rows, _FLOOR_Z))
    step = float(np.linalg.norm(camera.eye)) / camera.focal_px  # radii a pixel is wide, about
    x, y = camera.on_plane(columns, rows, RAIL_Z)
    outer_x, outer_y = room.half_x + _CUSHION + _WOOD, room.half_y + _CUSHION + _WOOD
    light = _over(light, *_apron(room, columns, rows, outer_x, outer_y, step))
    to_rail = _rounded(x, y, outer_x, outer_y, 2.2)
    light = _over(light, _rail(room, x, y, to_rail), _cover(to_rail, step))
    to_cushion = _rounded(x, y, room.half_x + _CUSHION, room.half_y + _CUSHION, 0.5)
    glow = _pool(room, x, y)
    nap = 1 + 0.05 * sample(fractal(61, cells=64, octaves=3, gain=0.8), x * 30 + 64 * TILE, y * 30 + 64 * TILE)
    light = _over(light, _plane(room.cloth) * (1.15 * glow * nap), _cover(to_cushion, step))
    to_nose = _rounded(x, y, room.half_x, room.half_y, 0.1)
    light = _over(light, _plane(room.cloth) * (0.42 * glow), _cover(to_nose, step))
    x0, y0 = camera.on_plane(columns, rows, 0.0)
    cloth = _cover(_rounded(x0, y0, room.half_x, room.half_y, 0.1), step) * _cover(to_nose, step)
    light = _over(light, _cloth(room, x0, y0, step), cloth)
    return _pockets(room, light, x, y, step)


def _cloth(room: Room, x: ndarray, y: ndarray, step: float) -> ndarray:
    u, v = x * 30 + 64 * TILE, y * 30 + 64 * TILE
    nap = 1 + 0.035 * sample(fractal(61, cells=64, octaves=3, gain=0.8), u, v)
    nap += 0.03 * sample(fractal(62, cells=5, octaves=4), u / 3, v / 3)
    edge = np.minimum(room.half_x - np.abs(x), room.half_y - np.abs(y))
    shade = 1 - 0.45 * np.exp(-np.maximum(edge, 0) / 0.9)
    light = _plane(room.cloth) * (_pool(room, x, y) * nap * shade)
    line = np.clip(0.5 + (0.05 - np.abs(y + room.half_y / 2)) / step, 0, 1)
    spot = _cover(np.hypot(x, y - room.half_y / 2) - 0.28, step)
    return _over(light, np.float32(0.5), 0.28 * np.maximum(line, 2 * spot))


def _rail(room: Room, x: ndarray, y: ndarray, to_rail: ndarray) -> ndarray:
    side = np.abs(x) - room.half_x > np.abs(y) - room.half_y
    along, across = np.where(side, y, x), np.where(side, x, y)
    fibres = sample(fractal(63, cells=8, octaves=6, gain=0.65), along * 5 + 64 * TILE, across * 60 + 64 * TILE)
    gloss = _pool(room, x, y)
    bevel = smoothstep(-0.5, 0.0, to_rail)  # the outer edge is rounded off and looks away from the lamps
    wood = _plane(room.wood) * np.clip(1 + 0.20 * fibres, 0.3, 2) * (gloss * (1 - 0.6 * bevel))
    wood += 0.035 * gloss**2
    half = room.half_x, room.half_y
    inlay = _CUSHION + _WOOD / 2
    # Diamonds: where the along-the-rail coordinate is a multiple of a quarter of the table.
    pitch = np.where(side, half[1] / 2, half[0] / 2)
    off = np.abs((along / pitch + 0.5) % 1 - 0.5) * pitch
    from_middle = np.abs(np.abs(across) - np.where(side, half[0], half[1]) - inlay)
    spots = smoothstep(0.30, 0.22, off + from_middle) * (np.abs(along) < 1.9 * pitch)
    return _over(wood, np.float32(0.55) * gloss, spots)


def _apron(
    room: Room, columns: ndarray, rows: ndarray, outer_x: float, outer_y: float, step: float
) -> tuple[ndarray, ndarray]:
    """The table's front, a vertical wooden face under the near rail: its light and where it is seen."""
    x, y, z = room.camera.rays(columns, rows)
    reach = np.float32(-outer_y - room.camera.eye[1]) / np.maximum(y, 1e-3)
    at_x = np.float32(room.camera.eye[0]) + reach * x
    at_z = np.float32(room.camera.eye[2]) + reach * z
    fibres = sample(fractal(63, cells=8, octaves=6, gain=0.65), at_x * 5 + 64 * TILE, at_z * 50 + 64 * TILE)
    down = (RAIL_Z - at_z) / _APRON
    light = _plane(room.wood) * (0.28 * np.clip(1 + 0.2 * fibres, 0.3, 2) * np.clip(1 - 0.7 * down, 0.1, 1.2))
    inside = _cover(np.abs(at_x) - outer_x + 0.6, step) * _cover(np.abs(down - 0.5) * _APRON - _APRON / 2, step)
    return light, inside


def _floor(room: Room, x: ndarray, y: ndarray) -> ndarray:
    x, y = np.clip(x, -400, 400), np.clip(y, -400, 400)
    boards = sample(fractal(64, cells=6, octaves=6, gain=0.6), x * 1.5 + 64 * TILE, y * 14 + 64 * TILE)
    outside = np.hypot(np.maximum(np.abs(x) - room.half_x, 0), np.maximum(np.abs(y) - room.half_y, 0))
    lit = 0.10 + 0.30 * smoothstep(0, 16, outside) * np.exp(-outside / 40)
    return _plane(room.floor) * (lit * (1 + 0.12 * boards))


def to_pocket(room: Room, x: ndarray, y: ndarray) -> ndarray:
    """Distance to the nearest of the six pockets' centers."""
    across, along = np.abs(x) - room.half_x, np.abs(y) - room.half_y
    return np.minimum(np.hypot(across - 0.45, along - 0.45), np.hypot(across - 0.85, y))


def _pockets(room: Room, light: ndarray, x: ndarray, y: ndarray, step: float) -> ndarray:
    away = to_pocket(room, x, y)
    light = _over(light, _plane((0.020, 0.012, 0.009)) * (0.5 + _pool(room, x, y)), _cover(away - 1.85, step))
    return _over(light, np.float32(0.003), _cover(away - 1.5, step))


def _pool(room: Room, x: ndarray, y: ndarray) -> ndarray:
    """The lamps' light on a horizontal surface: each falls off with the fourth power of the cosine."""
    total = np.full(np.broadcast_shapes(x.shape, y.shape), 0.03, np.float32)
    for cx, cy, cz in room.lamps.centers.tolist():
        total += room.lamps.power * (cz * cz / ((x - cx) ** 2 + (y - cy) ** 2 + cz * cz)) ** 2
    return total


def _rounded(x: ndarray, y: ndarray, half_x: float, half_y: float, radius: float) -> ndarray:
    """Signed distance to a rectangle with round corners, negative inside."""
    dx, dy = np.abs(x) - (half_x - radius), np.abs(y) - (half_y - radius)
    return np.hypot(np.maximum(dx, 0), np.maximum(dy, 0)) + np.minimum(np.maximum(dx, dy), 0) - radius


def _cover(distance: ndarray, step: float) -> ndarray:
    return np.clip(0.5 - distance / step, 0, 1)


def _plane(color: Sequence[float]) -> ndarray:
    return np.array(color, np.float32)[:, None, None]


def _over(below: ndarray, above: ndarray | np.float32, cover: ndarray) -> ndarray:
    below += (above - below) * cover
    return below
