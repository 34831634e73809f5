"""Sign plates in a street: a face turned, tilted, lit, blurred and shrunk onto its post."""

import math
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageChops, ImageFilter

from saccade.data.rendering.box import Box
from saccade.data.rendering.pixel_noise import TILE, fractal, sample, smoothstep
from saccade.data.rendering.sign_faces import SIDE, UNIT, Style, face
from saccade.data.rendering.sprites import Sprite
from saccade.data.rendering.street_camera import Camera
from saccade.data.rendering.street_light import Light

_DETAIL = 4


class Plate(NamedTuple):
    """A sign's face and where it hangs; angles in radians, `shade` 0 in the shade … 1 in the sun."""

    kind: str
    style: Style
    x_m: float
    center_m: float
    z_m: float
    span_m: float
    yaw: float
    roll: float
    shade: float
    blur_px: float
    seed: int


def plate_box(camera: Camera, plate: Plate) -> Box:
    """The pixels a round plate covers."""
    center = camera.project(plate.x_m, plate.center_m, plate.z_m)
    (a, b), (c, d) = _turn(plate)
    radius = plate.span_m / 2 * camera.px_per_m(plate.z_m)
    half_x, half_y = radius * math.hypot(a, b), radius * math.hypot(c, d)
    return Box(
        math.floor(center.x_px - half_x),
        math.floor(center.y_px - half_y),
        math.ceil(center.x_px + half_x),
        math.ceil(center.y_px + half_y),
    )


def _turn(plate: Plate) -> tuple[tuple[float, float], tuple[float, float]]:
    """Plate to picture: a turn about the post narrows the plate, then it rolls in the picture's plane."""
    narrow, cos, sin = math.cos(plate.yaw), math.cos(plate.roll), math.sin(plate.roll)
    return (narrow * cos, -sin), (narrow * sin, cos)


def pose(camera: Camera, light: Light, plate: Plate) -> Sprite:
    """The plate as it appears in the street."""
    center = camera.project(plate.x_m, plate.center_m, plate.z_m)
    radius = plate.span_m / 2 * camera.px_per_m(plate.z_m)
    half = math.ceil(1.1 * radius + 3 * plate.blur_px) + 1
    left, top = math.floor(center.x_px) - half, math.floor(center.y_px) - half
    (a, b), (c, d) = _turn(plate)
    unit = UNIT / (radius * _DETAIL * (a * d - b * c))
    across, down = (center.x_px - left) * _DETAIL, (center.y_px - top) * _DETAIL
    rows = ((d * unit, -b * unit), (-c * unit, a * unit))
    matrix = [k for p, q in rows for k in (p, q, SIDE / 2 - p * across - q * down)]
    side = 2 * half * _DETAIL
    large = face(plate.kind, plate.style).transform(
        (side, side), Image.Transform.AFFINE, matrix, resample=Image.Resampling.BILINEAR
    )
    small = _weather(large.reduce(_DETAIL), light, plate)
    return Sprite(small.filter(ImageFilter.GaussianBlur(plate.blur_px)).convert("RGBA"), left, top)


def _weather(image: Image.Image, light: Light, plate: Plate) -> Image.Image:
    """The face under the scene's light: uneven, dirty, and dappled by the shade of leaves.

    Uneven light also keeps a figure's mean darkness, which survives any shrinking, from telling which figure it is.
    """
    rng = np.random.default_rng(plate.seed)
    side = image.width
    slope = np.linspace(-1, 1, side, dtype=np.float32)
    tilt_x, tilt_y = rng.normal(0, 0.09, 2).tolist()
    tone = 1 + tilt_y * slope[:, None] + tilt_x * slope[None, :]
    leaves = fractal(31, cells=32, octaves=4, gain=0.6)
    at = rng.uniform(0, TILE, 2).astype(np.float32)[:, None] + np.arange(side, dtype=np.float32) * (64 / side)
    pattern = sample(leaves, at[0][None, :], at[1][:, None])
    tone *= 1 - float(rng.uniform(0, 0.4)) * smoothstep(-0.6, 0.9, pattern)
    lit = light.lit((255, 255, 255), plate.shade)
    tones = [Image.fromarray((tone * level).clip(0, 255).astype(np.uint8)) for level in lit]
    bands = [ImageChops.multiply(band, tone) for band, tone in zip(image.split(), tones, strict=False)]
    return Image.merge("RGBa", [*bands, image.getchannel("a")])
