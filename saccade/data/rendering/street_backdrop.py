"""What lies behind everything on a street: sky and clouds, hills and the edge of a wood."""

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray
from PIL import Image

from saccade.data.rendering.pixel_noise import TILE, Number, fractal, sample, smoothstep
from saccade.data.rendering.street_camera import Camera
from saccade.data.rendering.street_light import Light


def paint_sky(rng: np.random.Generator, camera: Camera, light: Light) -> Image.Image:
    """Sky of the whole picture's width down to just under the horizon.

    Clouds are noise on a flat ceiling, so they shrink towards the horizon; they are soft enough to be painted at a
    quarter of the resolution.
    """
    width = camera.size[1]
    height = max(int(camera.horizon_px) + 2, 8)
    rows, columns = max(height // 4, 2), max(width // 4, 2)
    up = (np.arange(rows, 0, -1, dtype=np.float32)[:, None] - 0.5) / rows  # 1 at the top, 0 at the horizon
    across = np.linspace(-0.5, 0.5, columns, dtype=np.float32)[None, :] * width / max(height, 1)
    sky = _gradient(up, across, light)
    density, lit = _clouds(rng, up, across, light)
    white = np.array(light.horizon, np.float32) * 0.35 + np.array(light.sun, np.float32) * 160
    gray = np.array(light.ambient, np.float32) * 120 + np.array(light.zenith, np.float32) * 0.42
    cloud = gray + (white - gray) * lit[..., None]
    sky += (cloud - sky) * density[..., None]
    small = Image.fromarray(sky.clip(0, 255).astype(np.uint8))
    return small.resize((width, height), Image.Resampling.BICUBIC)


def _gradient(up: ndarray, across: ndarray, light: Light) -> ndarray:
    zenith, horizon = np.array(light.zenith, np.float32), np.array(light.horizon, np.float32)
    sky = horizon + (zenith - horizon) * (1 - np.exp(-2.2 * up))[..., None]
    glow = np.exp(-(((across - 0.7 * light.sun_side) / 0.7) ** 2) - ((up - 0.25) / 0.6) ** 2)
    return sky + (glow * (1.6 * light.shadow))[..., None] * (np.array(light.sun, np.float32) * 46)


def _clouds(rng: np.random.Generator, up: ndarray, across: ndarray, light: Light) -> tuple[ndarray, ndarray]:
    """How dense and how bright the clouds are: both 0 … 1."""
    texture = fractal(11, cells=5, octaves=6, gain=0.52)
    depth = 1 / (up + 0.34)
    u = across * depth * 150 + float(rng.uniform(0, TILE)) + 8 * TILE
    v = depth * 150 + float(rng.uniform(0, TILE)) + np.zeros_like(across)
    here = sample(texture, u, v)
    # The side of a cloud that thins out towards the sun is bright.
    towards_sun = sample(texture, u + 9 * light.sun_side, v + 7)
    threshold = 1.7 - 3.1 * light.cloud_cover
    density = smoothstep(threshold, threshold + 1.3, here) * (0.35 + 0.65 * smoothstep(0.0, 0.3, up))
    lit = smoothstep(-0.9, 0.9, here - towards_sun) * 0.65 + 0.35 * smoothstep(2.2, 0.2, here)
    return 0.94 * density, lit


def paint_hills(rng: np.random.Generator, picture: UInt8[ndarray, "H W 3"], camera: Camera, light: Light) -> None:
    """One or two ridges and the edge of a wood, each nearer, darker and less hazy than the one behind."""
    width = camera.size[1]
    column = np.arange(width, dtype=np.float32)
    bumps = fractal(12, cells=3, octaves=5)
    ridges = [(900, 0.10, 90), (420, 0.07, 60), (float(rng.uniform(90, 170)), 0.05, 160)]
    for far_m, rise, wavelength in ridges[int(rng.integers(0, 2)) :]:
        shift = float(rng.uniform(0, TILE))
        row = np.full(1, rng.uniform(0, TILE), np.float32)
        tops = 0.55 + 0.3 * sample(bumps, column * TILE * 100 / (wavelength * width) + shift, row)
        tops = np.clip(tops, 0.1, 1.6) * rise * camera.size[0] * float(rng.uniform(0.6, 1.1))
        if far_m < 400:
            tops *= 1 + 0.22 * sample(_crowns(), column * 640 / width + shift, row)
        _paint_ridge(picture, tops, camera, light, far_m, shift)


def _crowns() -> ndarray:
    return fractal(13, cells=24, octaves=5, gain=0.6)


def _paint_ridge(picture: ndarray, tops: ndarray, camera: Camera, light: Light, far_m: Number, shift: Number) -> None:
    foot = camera.horizon_px + camera.focal_px * camera.eye_m / far_m
    top, bottom = max(int(foot - tops.max()) - 1, 0), min(int(foot) + 1, len(picture))
    above = foot - (np.arange(top, bottom, dtype=np.float32)[:, None] + 0.5)
    cover = np.clip(tops[None, :] - above + 0.5, 0, 1) * np.clip(above + 0.5, 0, 1)
    column = np.arange(picture.shape[1], dtype=np.float32)[None, :] + shift
    mix = float(1 - np.exp(-far_m / (light.haze_m * 2.2)))
    rough = (1 - mix) * 0.20
    tone = 1 + rough * sample(_crowns(), column * 1.3, above * 1.7 + 4 * TILE) - 2.2 * rough * (1 - above / tops.max())
    tone = np.clip(tone, 0.3, 1.6)
    leaf = light.lit(light.foliage[0][1], 0.3)
    for channel in range(3):
        band = picture[top:bottom, :, channel].astype(np.float32)
        band += (tone * (leaf[channel] + (light.haze[channel] - leaf[channel]) * mix) - band) * cover
        picture[top:bottom, :, channel] = band.clip(0, 255)
