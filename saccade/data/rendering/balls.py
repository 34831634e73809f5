"""Numbered billiard balls: rays cut with unit spheres, lamps and a window mirrored in the varnish.

Per ball, over its box in the picture with 3×3 rays a pixel: the ray E + t·d meets the sphere of center c where
|E + t·d − c|² = 1. There, with normal n and mirrored ray r,

    light = (1 − F)·albedo·(Σ lamps' n·l + ambient(n)) + F·room(r),   F = 0.04 + 0.96·(1 + n·d)⁵  (Schlick).
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int8, UInt8
from numpy import ndarray
from PIL import Image, ImageDraw, ImageFont

from saccade.data.rendering.box import Box
from saccade.data.rendering.pixel_noise import smoothstep
from saccade.data.rendering.table_camera import TableCamera
from saccade.data.rendering.table_room import Room, encode

RAYS = 3
DISC = 0.54  # radius of the white disc, in ball radii
DISC_ID = 100  # added to a ball's number in the id picture where its disc shows
_GLYPH = 96


class Ball(NamedTuple):
    """A ball at (x, y) on the cloth; `roll` turns its number in the picture's plane (radians)."""

    x: float
    y: float
    number: int
    albedo: tuple[float, float, float]
    roll: float

    @property
    def center(self) -> Float[ndarray, "3"]:
        """Where its center lies."""
        return np.array([self.x, self.y, 1.0])


def ball_box(camera: TableCamera, x: float, y: float) -> Box:
    """The smallest box of whole pixels around a ball at (x, y): where planes through the eye touch the sphere."""
    offset = np.array([x, y, 1.0]) - camera.eye
    left, right = _extent(camera, offset, camera.right)
    bottom, top = _extent(camera, offset, camera.up)
    cx, cy = camera.center_px
    return Box(int(np.floor(cx + left)), int(np.floor(cy - top)), int(np.ceil(cx + right)), int(np.ceil(cy - bottom)))


def _extent(camera: TableCamera, offset: ndarray, axis: ndarray) -> tuple[float, float]:
    """Smallest and largest f·tan of the angle, in the plane of `axis` and forward, under which the sphere is seen."""
    across, depth = float(offset @ axis), float(offset @ camera.forward)
    away = np.hypot(across, depth)
    middle, half = np.arctan2(across, depth), np.arcsin(1 / away)
    return camera.focal_px * np.tan(middle - half), camera.focal_px * np.tan(middle + half)


def paint_ball(
    picture: UInt8[ndarray, "H W 3"],
    ids: Int8[ndarray, "H W"],
    room: Room,
    camera: TableCamera,
    ball: Ball,
    others: list[Ball],
) -> None:
    """Paints a ball over the picture and its place in `others`, from 1 (+ `DISC_ID` on its disc), into `ids`."""
    height, width = ids.shape
    left, top, right, bottom = ball_box(camera, ball.x, ball.y)
    left, top, right, bottom = max(left, 0), max(top, 0), min(right, width), min(bottom, height)
    places = [(np.arange((b - a) * RAYS, dtype=np.float32) + 0.5) / RAYS + a for a, b in ((left, right), (top, bottom))]
    ray = _unit(np.stack(camera.rays(places[0][None, :], places[1][:, None])))
    hit, normal = _meet(camera, ball, ray)
    skin = _skin(camera, ball, normal)
    light = _shade(room, ball, others, ray, normal, skin)
    color = np.where(hit, encode(light), 0)
    cover = _pool_rays(hit.astype(np.float32))
    part = picture[top:bottom, left:right]
    part[:] = (part * (1 - cover[..., None]) + np.moveaxis(_pool_rays(color), 0, -1)).clip(0, 255)
    seen = ids[top:bottom, left:right]
    number = others.index(ball) + 1
    seen[cover > 0.5] = number
    seen[_pool_rays((skin.on_disc & hit).astype(np.float32)) > 0.5] = number + DISC_ID


def _pool_rays(values: ndarray) -> ndarray:
    """Rays → pixels: means over RAYS×RAYS, as sums of strided parts, which NumPy adds faster than it reduces."""
    a, b, c = (values[..., k::RAYS, :] for k in range(RAYS))
    a, b, c = ((a + b + c)[..., k::RAYS] for k in range(RAYS))
    return (a + b + c) / RAYS**2


def _unit(vector: ndarray) -> ndarray:
    return vector / np.sqrt(np.einsum("i...,i...->...", vector, vector))


def _dot(vector: ndarray, other: ndarray) -> ndarray:
    """Inner product over the leading axis of three."""
    return vector[0] * other[0] + vector[1] * other[1] + vector[2] * other[2]


def _meet(camera: TableCamera, ball: Ball, ray: ndarray) -> tuple[ndarray, ndarray]:
    """Which rays meet the ball, and the normal there; on a miss, the normal of the nearest grazing point."""
    offset = (camera.eye - ball.center).astype(np.float32)
    along = _dot(ray, offset)
    inside = along * along - np.float32(offset @ offset - 1)
    reach = -along - np.sqrt(np.maximum(inside, 0))
    return inside > 0, _unit(offset[:, None, None] + ray * reach)


class _Skin(NamedTuple):
    albedo: ndarray
    on_disc: ndarray
    gloss: ndarray  # 0 on and near the disc, where a mirrored lamp would hide the number, 1 elsewhere


def _skin(camera: TableCamera, ball: Ball, normal: ndarray) -> _Skin:
    """The sphere's surface: its color, the white disc that faces the camera, the number."""
    facing = _unit(camera.eye - ball.center)
    across = _unit(np.cross(facing, -camera.up))
    upward = np.cross(facing, across)
    cos, sin = np.cos(ball.roll), np.sin(ball.roll)
    axes = (cos * across + sin * upward, cos * upward - sin * across, facing)
    u, v, front = (_dot(normal, axis.astype(np.float32)) for axis in axes)
    on_disc = (u * u + v * v < DISC**2) & (front > 0)
    column, row = (((1 + k / DISC) * (_GLYPH / 2)).astype(np.int32).clip(0, _GLYPH - 1) for k in (u, -v))
    ink = _glyph(ball.number).ravel().take(row * _GLYPH + column)
    white, black = np.float32(0.82), np.float32(0.012)
    color = np.array(ball.albedo, np.float32)[:, None, None]
    gloss = smoothstep(DISC, DISC + 0.16, np.sqrt(u * u + v * v))
    return _Skin(np.where(on_disc, white + (black - white) * ink, color), on_disc, np.where(front > 0, gloss, 1))


@lru_cache(maxsize=9)
def _glyph(number: int) -> Float[ndarray, "g g"]:
    """How much ink of a number lies on its disc, in a square around the disc."""
    image = Image.new("L", (_GLYPH, _GLYPH))
    font = ImageFont.load_default(size=_GLYPH * 0.80)
    place = (_GLYPH / 2, _GLYPH / 2)
    ImageDraw.Draw(image).text(
        place, str(number), 255, font=font, anchor="mm", stroke_width=_GLYPH * 0.028, stroke_fill=255
    )
    return np.asarray(image, np.float32) / 255


def _shade(room: Room, ball: Ball, others: list[Ball], ray: ndarray, normal: ndarray, skin: _Skin) -> ndarray:
    diffuse = np.float32(0)
    for center in room.lamps.centers:
        to_lamp = (center - ball.center).astype(np.float32)
        away = float(np.linalg.norm(to_lamp))
        height = float(center[2])
        power = room.lamps.power * (height / away) ** 2
        diffuse = diffuse + power * np.maximum(0.12 + 0.88 * _dot(normal, to_lamp / away), 0)
    up = 0.5 + 0.5 * normal[2]
    cloth = np.array(room.cloth, np.float32)[:, None, None]
    ambient = 0.16 * up + 0.9 * cloth * (1 - up)
    hidden = _hidden_by_others(ball, others, normal)
    grazing = 1 + _dot(ray, normal)
    mirror = 0.005 + 0.035 * skin.gloss + 0.96 * np.clip(grazing, 0, 1) ** 5
    bounce = ray - 2 * (grazing - 1) * normal
    body = skin.albedo * (diffuse + ambient) * (1 - hidden)
    return body * (1 - mirror) + mirror * _room_light(room, ball, normal, bounce) * (1 - 0.7 * hidden)


def _hidden_by_others(ball: Ball, others: list[Ball], normal: ndarray) -> ndarray:
    """The part of the light that neighboring balls keep away: a unit sphere at distance d covers n·l / d² of it."""
    hidden = np.zeros(normal.shape[1:], np.float32)
    for other in others:
        offset = (other.center - ball.center).astype(np.float32)
        away = float(np.linalg.norm(offset))
        if 0 < away < 5:
            hidden += np.maximum(_dot(normal, offset / away), 0) ** 2 * (2.2 / away**2)
    return np.minimum(hidden, 0.8)


def _room_light(room: Room, ball: Ball, normal: ndarray, bounce: ndarray) -> ndarray:
    """What the varnish mirrors: the lamps' rectangles above, the cloth below, a dim room between."""
    cloth = np.array(room.cloth, np.float32)[:, None, None]
    down = smoothstep(0.05, -0.1, bounce[2])
    light = 0.10 * (1 - down) + 0.10 * np.maximum(bounce[2], 0)  # white, until the cloth's color is added last
    for cx, cy, cz in room.lamps.centers.tolist():
        reach = np.float32(cz - 1) / np.maximum(bounce[2], 0.05)
        x = np.float32(ball.x - cx) + normal[0] + bounce[0] * reach
        y = np.float32(ball.y - cy) + normal[1] + bounce[1] * reach
        outside = np.maximum(np.abs(x) / room.lamps.half_x, np.abs(y) / room.lamps.half_y)
        light = light + 26 * room.lamps.power * smoothstep(1.15, 0.85, outside) * (bounce[2] > 0.05)
    # A window in the far wall: its glint sits above the disc, while the lamps' own falls on it and is damped.
    across, up = np.abs(bounce[0] - room.window), np.abs(bounce[2] - 0.52)
    panes = smoothstep(0.30, 0.25, across) * smoothstep(0.20, 0.16, up) * smoothstep(0.012, 0.03, across)
    return light + 11 * panes * (bounce[1] > 0) + 2.0 * cloth * down
