"""Trees, bushes and hedges of a street.

A crown is a heap of spheres lit from the upper left, its outline and shading broken up by noise. Crowns are modelled
once per process as gray relief and opacity; a scene flips, shrinks and colors them, for a small part of the time.
"""

from functools import lru_cache

import numpy as np
from numpy import ndarray
from PIL import Image, ImageChops, ImageOps

from saccade.data.rendering.pixel_noise import Number, fractal, smoothstep, window
from saccade.data.rendering.sprites import Sprite
from saccade.data.rendering.street_camera import Camera
from saccade.data.rendering.street_light import Light

VARIANTS = 6
_SIDE = 288
_SUN = np.array((-0.55, -0.68, 0.48), np.float32)


@lru_cache(maxsize=128)
def relief(kind: str, variant: int, shrink: int = 1) -> Image.Image:
    """One of `VARIANTS` models of a `kind` of plant: broadleaf, poplar, conifer or bush.

    The three bands of the picture are the leaves' brightness, where leaves are, and where bark is.
    """
    if shrink > 1:
        return relief(kind, variant).reduce(shrink)
    rng = np.random.default_rng((sorted(_MODELS).index(kind), variant))
    y, x = (np.mgrid[0:_SIDE, 0:_SIDE].astype(np.float32) + 0.5) / _SIDE * 2 - 1  # −1 … 1, y down
    warp = fractal(21, cells=14, octaves=5, gain=0.75)
    ragged_x, ragged_y = (axis + 0.035 * window(warp, rng, (_SIDE, _SIDE)) for axis in (x, y))
    shade, leaves = _MODELS[kind](rng, ragged_x, ragged_y)
    width = _TRUNKS[kind] * (1 + 0.5 * smoothstep(0.7, 1.0, y) + 0.1 * y)
    bark = smoothstep(0.015, 0.0, np.abs(0.7 * x + 0.3 * ragged_x) - width) * (y > 0.25)
    twinkle = window(fractal(22, cells=80, octaves=3, gain=0.9), rng, (_SIDE, _SIDE))
    shade = np.clip(shade + 0.11 * twinkle, 0, 1)
    return Image.merge("RGB", [Image.fromarray((a * 255).astype(np.uint8)) for a in (shade, leaves, bark)])


def _heap(rng: np.random.Generator, x: ndarray, y: ndarray, spheres: ndarray) -> tuple[ndarray, ndarray]:
    """Brightness and opacity of a heap of spheres, rows (x, y, z, radius), seen from the front."""
    height = np.full(x.shape, -9, np.float32)
    shade = np.zeros_like(x)
    depth = np.full(x.shape, -1, np.float32)
    for cx, cy, cz, radius in spheres:
        dx, dy = (x - cx) / radius, (y - cy) / radius
        inside = 1 - dx * dx - dy * dy
        dz = np.sqrt(np.maximum(inside, 0))
        front = (inside > 0) & (cz + radius * dz > height)
        height[front] = (cz + radius * dz)[front]
        shade[front] = (_SUN[0] * dx + _SUN[1] * dy + _SUN[2] * dz)[front]
        np.maximum(depth, inside, out=depth)
    gaps = window(fractal(23, cells=40, octaves=4, gain=0.8), rng, x.shape)
    opacity = smoothstep(0.0, 0.16, depth + 0.10 * gaps) * (1 - smoothstep(2.0, 2.5, gaps))
    # The underside of the crown lies in its own shade.
    return np.clip(0.40 + 0.48 * shade - 0.20 * y, 0, 1), opacity


def _spheres(rng: np.random.Generator, count: int, half_width: Number, top: Number, bottom: Number) -> ndarray:
    turn = rng.uniform(0, 2 * np.pi, count)
    reach = np.sqrt(rng.uniform(0, 1, count)) * 0.72
    middle, half_height = (top + bottom) / 2, (bottom - top) / 2
    radius = rng.uniform(0.23, 0.46, count) * np.sqrt(half_width * half_height) * 0.95
    x = half_width * reach * np.cos(turn)
    y = middle + half_height * reach * np.sin(turn)
    return np.stack([x, y, rng.uniform(-0.2, 0.3, count), radius], 1).astype(np.float32)


def _broadleaf(rng: np.random.Generator, x: ndarray, y: ndarray) -> tuple[ndarray, ndarray]:
    count, half_width = int(rng.integers(20, 32)), float(rng.uniform(0.62, 0.82))
    return _heap(rng, x, y, _spheres(rng, count, half_width, -0.96, float(rng.uniform(0.42, 0.62))))


def _poplar(rng: np.random.Generator, x: ndarray, y: ndarray) -> tuple[ndarray, ndarray]:
    return _heap(rng, x, y, _spheres(rng, int(rng.integers(24, 34)), float(rng.uniform(0.24, 0.34)), -0.92, 0.72))


def _bush(rng: np.random.Generator, x: ndarray, y: ndarray) -> tuple[ndarray, ndarray]:
    spheres = _spheres(rng, int(rng.integers(18, 26)), 0.84, float(rng.uniform(-0.4, 0.0)), 1.15)
    shade, opacity = _heap(rng, x, y, spheres)
    return shade, opacity * smoothstep(1.0, 0.93, y)


def _conifer(rng: np.random.Generator, x: ndarray, y: ndarray) -> tuple[ndarray, ndarray]:
    tiers = float(rng.uniform(7, 11))
    down = np.maximum((y + 0.97) / 1.85, 1e-3)  # 0 at the tip, 1 at the lowest branch
    droop = (down * tiers + 0.35 * np.abs(x) * tiers) % 1
    half_width = 0.42 * down**0.85 * (0.72 + 0.34 * droop)
    ragged = window(fractal(24, cells=36, octaves=4, gain=0.8), rng, (_SIDE, _SIDE))
    edge = smoothstep(-0.02, 0.03, half_width - np.abs(x) + 0.018 * ragged)
    opacity = edge * (down > 2e-3) * smoothstep(1.02, 0.98, down)
    shade = 0.34 - 0.24 * x / half_width + 0.28 * droop + 0.06 * ragged
    return np.clip(shade, 0, 1), opacity


_MODELS = {"broadleaf": _broadleaf, "poplar": _poplar, "bush": _bush, "conifer": _conifer}
_TRUNKS = {"broadleaf": 0.045, "poplar": 0.03, "bush": 0.0, "conifer": 0.03}  # half widths
_EVERGREEN = ((22, 38, 28), (84, 112, 68))


def plant(
    rng: np.random.Generator, camera: Camera, light: Light, kind: str, x_m: Number, z_m: Number, height_m: Number
) -> Sprite:
    """A plant of `kind` standing at (x, z), `height_m` tall and as wide as its model says."""
    foot = camera.project(x_m, 0, z_m)
    tall = max(int(camera.px_per_m(z_m) * height_m), 3)
    wide = max(int(tall * rng.uniform(0.85, 1.15)), 3)
    shrink = max(s for s in (1, 2, 4, 8) if s == 1 or s * max(wide, tall) <= _SIDE)
    model = relief(kind, int(rng.integers(VARIANTS)), shrink).resize((wide, tall), Image.Resampling.BILINEAR)
    if light.sun_side > 0:
        model = ImageOps.mirror(model)
    shade, leaves, bark = model.split()
    shaded, lit = _EVERGREEN if kind == "conifer" else light.foliage[int(rng.integers(len(light.foliage)))]
    hue = rng.uniform(0.88, 1.12, 3)
    bright = light.lit((lit[0] * hue[0], lit[1] * hue[1], lit[2] * hue[2]), 0.4 + light.shadow)
    image = Image.new("RGB", model.size, light.lit(shaded, 0.2))
    image.paste(bright, (0, 0, wide, tall), shade)
    image.paste(light.lit((88, 74, 62), 0.4), (0, 0, wide, tall), ImageChops.subtract(bark, leaves))
    image.putalpha(ImageChops.lighter(leaves, bark))
    return Sprite(image, int(foot.x_px - wide / 2), int(foot.y_px - 0.98 * tall))
