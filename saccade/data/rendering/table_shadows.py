"""The shadows of balls on the cloth.

At distance ρ from where it touches, a ball hides the part 1 / (ρ² + 1)^{3/2} of an even sky (the cosine-weighted solid
angle of a unit sphere on a plane), and of each lamp's light what lies in a disc with a soft edge.
"""

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray

from saccade.data.rendering.balls import Ball
from saccade.data.rendering.pixel_noise import smoothstep
from saccade.data.rendering.table_camera import TableCamera
from saccade.data.rendering.table_room import RAIL_Z, Room

_REACH = 4.2  # ball radii beyond which a shadow has all but vanished


def paint_shadows(picture: UInt8[ndarray, "H W 3"], room: Room, camera: TableCamera, balls: list[Ball]) -> None:
    """Darkens the cloth around every ball."""
    height, width = picture.shape[:2]
    for ball in balls:
        corners = [(ball.x + i, ball.y + j, 0) for i in (-_REACH, _REACH) for j in (-_REACH, _REACH)]
        places = camera.project(np.array(corners))
        left, top = np.maximum(places[:, :2].min(0).astype(int), 0).tolist()
        right, bottom = np.minimum(places[:, :2].max(0).astype(int) + 1, (width, height)).tolist()
        columns = np.arange(left, right, dtype=np.float32)[None, :] + 0.5
        rows = np.arange(top, bottom, dtype=np.float32)[:, None] + 0.5
        x, y = camera.on_plane(columns, rows, 0.0)
        kept = _kept_light(room, ball, x, y)
        kept[(np.abs(x) > room.half_x) | (np.abs(y) > room.half_y)] = 1
        kept[camera.on_plane(columns, rows, RAIL_Z)[1] < -room.half_y] = 1  # the near cushion is in front
        part = picture[top:bottom, left:right]
        for channel in range(3):
            part[..., channel] = part[..., channel] * kept


def _kept_light(room: Room, ball: Ball, x: ndarray, y: ndarray) -> ndarray:
    """The share of a cloth pixel's 8-bit value that a ball leaves."""
    away = (x - ball.x) ** 2 + (y - ball.y) ** 2
    kept = 1 - 0.75 * (away + 1) ** -1.5
    lamps = room.lamps
    for cx, cy, cz in lamps.centers.tolist():
        lean = 1 / (cz - 1)
        at_x, at_y = ball.x + (ball.x - cx) * lean, ball.y + (ball.y - cy) * lean
        blur_x, blur_y = 1 + lamps.half_x * lean, 1 + lamps.half_y * lean
        away = np.sqrt(((x - at_x) / blur_x) ** 2 + ((y - at_y) / blur_y) ** 2)
        kept *= 1 - 0.85 / len(lamps.centers) * smoothstep(1.25, 0.35, away)
    fade = smoothstep(_REACH, 0.6 * _REACH, np.maximum(np.abs(x - ball.x), np.abs(y - ball.y)))
    return np.sqrt(1 + (kept - 1) * fade)
