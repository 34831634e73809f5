"""Tiled pyramidal TIFFs for benchmarks, written tile by tile: nothing of their size is ever in memory.

Every level is written from tiles that a function makes for it, deflated, each half as large as the one before.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import tifffile

TILE = 512
SMALLEST_LEVEL = 512

# level side, top, left → a tile of TILE² pixels
MakeTile = Callable[[int, int, int], np.ndarray]


def write_pyramid(path: Path, side: int, make_tile: MakeTile) -> Path:
    """A pyramid of `side`² pixels; tiles at the border may hold anything beyond it."""
    with tifffile.TiffWriter(path, bigtiff=True) as tiff:
        level = side
        while level >= min(SMALLEST_LEVEL, side):
            tiff.write(
                _tiles(level, make_tile),
                shape=(level, level, 3),
                dtype=np.uint8,
                tile=(TILE, TILE),
                photometric="rgb",
                compression="deflate",
                compressionargs={"level": 1},
                predictor=True,
                subfiletype=int(level < side),
            )
            level //= 2
    return path


def _tiles(side: int, make_tile: MakeTile) -> Iterator[np.ndarray]:
    for top in range(0, side, TILE):
        for left in range(0, side, TILE):
            yield np.ascontiguousarray(make_tile(side, top, left))
