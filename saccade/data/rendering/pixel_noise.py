"""Tileable fractal noise, made once per process: the texture under grass, asphalt, clouds, foliage, felt and wood.

A texture is a sum of octaves of smoothed value noise on a torus, so any window of it, at any offset, has no seam.
It depends on its name's seed alone: every process of every run holds the same textures.
"""

from functools import lru_cache

import numpy as np
from jaxtyping import Float
from numpy import ndarray

TILE = 512
Number = int | float  # the painters' lengths and colors: a run-time check takes `float` at its word


@lru_cache(maxsize=16)
def fractal(seed: int, *, cells: int = 4, octaves: int = 6, gain: Number = 0.5) -> Float[ndarray, "t t"]:
    """A TILE×TILE fractal texture with mean 0 and standard deviation 1; `cells` bumps across in its first octave."""
    rng = np.random.default_rng(seed)
    total = np.zeros((TILE, TILE), np.float32)
    for octave in range(octaves):
        count = min(cells << octave, TILE)
        total += gain**octave * _upsample(rng.standard_normal((count, count), dtype=np.float32))
    total = (total - total.mean()) / total.std()
    total.flags.writeable = False
    return total


def _upsample(grid: ndarray) -> ndarray:
    """Periodic smooth interpolation of a square grid to TILE×TILE."""
    for axis in (0, 1):
        count = grid.shape[axis]
        at = np.arange(TILE) * count / TILE
        low = at.astype(int)
        t = at - low
        t = (t * t * (3 - 2 * t)).astype(np.float32)
        t = t[:, None] if axis == 0 else t[None, :]
        grid = grid.take(low % count, axis) * (1 - t) + grid.take((low + 1) % count, axis) * t
    return grid


def sample(texture: Float[ndarray, "t t"], u: ndarray, v: ndarray) -> ndarray:
    """The texture at (column u, row v), in texture pixels, wrapped and rounded; u and v broadcast."""
    columns = u.astype(np.int32) & (TILE - 1)
    rows = v.astype(np.int32) & (TILE - 1)
    return texture.ravel().take(rows * TILE + columns)


def smoothstep(low: Number, high: Number, value: ndarray) -> ndarray:
    """0 below `low`, 1 above `high`, a smooth ramp between."""
    t = np.clip((value - low) / (high - low), 0, 1)
    return t * t * (3 - 2 * t)


def window(texture: Float[ndarray, "t t"], rng: np.random.Generator, size: tuple[int, int]) -> ndarray:
    """A window of `size` (height, width) at a random offset, wrapped where it is larger than the tile."""
    top, left = (int(k) for k in rng.integers(0, TILE, 2))
    rows = (np.arange(size[0]) + top) & (TILE - 1)
    columns = (np.arange(size[1]) + left) & (TILE - 1)
    return texture.take(rows, 0).take(columns, 1)
