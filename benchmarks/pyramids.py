"""Tiled pyramidal TIFFs for benchmarks, written tile by tile: nothing of their size is ever in memory.

Every level is written from encoded tiles that a function makes for it, each level half as large as the one before.
"""

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import tifffile

TILE = 512
SMALLEST_LEVEL = 512

JPEG, YCBCR = 7, 6  # as a TIFF has them

# level side, top, left → a tile of TILE² pixels, encoded
MakeTile = Callable[[int, int, int], bytes]


def encode(pixels: np.ndarray) -> bytes:
    """A tile as the file holds it: differences between neighbors in a row, deflated."""
    differences = pixels.copy()
    differences[:, 1:] -= pixels[:, :-1]
    return zlib.compress(differences.tobytes(), 1)


def write_pyramid(
    path: Path, side: int, make_tile: MakeTile, compression: Literal["deflate", "jpeg"] = "deflate"
) -> Path:
    """A pyramid of `side`² pixels; tiles at the border may hold anything beyond it. JPEGs are as Pillow writes them."""
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
                predictor=compression == "deflate",
                subfiletype=int(level < side),
            )
            level //= 2
    if compression == "jpeg":
        _call_jpeg(path)
    return path


def _call_jpeg(path: Path) -> None:
    """Say in the file that its tiles are JPEGs; tifffile would write them only with a package that encodes them."""
    with tifffile.TiffFile(path, mode="r+") as tiff:
        for number in range(len(tiff.pages)):
            page = tiff.pages.get(number)
            assert isinstance(page, tifffile.TiffPage)
            page.tags["Compression"].overwrite(JPEG)
            page.tags["PhotometricInterpretation"].overwrite(YCBCR)


def _tiles(side: int, make_tile: MakeTile) -> Iterator[bytes]:
    for top in range(0, side, TILE):
        for left in range(0, side, TILE):
            yield make_tile(side, top, left)
