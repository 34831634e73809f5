"""Tiled pyramidal TIFFs for benchmarks, written tile by tile: nothing of their size is ever in memory.

Every level is written from deflated tiles that a function makes for it, each level half as large as the one before.
"""

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import tifffile

TILE = 512
SMALLEST_LEVEL = 512

# level side, top, left → a tile of TILE² pixels, encoded
MakeTile = Callable[[int, int, int], bytes]


def encode(pixels: np.ndarray) -> bytes:
    """A tile as the file holds it: differences between neighbours in a row, deflated."""
    differences = pixels.copy()
    differences[:, 1:] -= pixels[:, :-1]
    return zlib.compress(differences.tobytes(), 1)


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
                predictor=True,
                subfiletype=int(level < side),
            )
            level //= 2
    return path


def _tiles(side: int, make_tile: MakeTile) -> Iterator[bytes]:
    for top in range(0, side, TILE):
        for left in range(0, side, TILE):
            yield make_tile(side, top, left)
