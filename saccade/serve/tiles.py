"""Deep zoom: a picture of any size as square JPEG tiles at many levels.

Level 0 shows the whole picture in one tile, each further level doubles it, the last is full resolution. A side of W
pixels has ⌈W / 2^(last − level)⌉ of them at a level.
"""

from functools import cached_property
from io import BytesIO
from pathlib import Path
from threading import Lock

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from saccade.images import FileImage, Guard, SlideImage
from saccade.images.boxes import Box
from saccade.images.decoding_cost import MAX_PIXELS
from saccade.images.pyramid import KEPT_BYTES

TILE_PX = 512
QUALITY = 90
READ_FACTOR = 4  # a tile is read at up to 4² its pixels (12 MB); from finer levels it is put together of tiles


def last_level(size: tuple[int, int]) -> int:
    """The level of full resolution.

    >>> last_level((336, 448)), last_level((512, 513)), last_level((65536, 65536))
    (0, 1, 7)
    """
    return max((max(size) - 1) // TILE_PX, 0).bit_length()


class PixelTiles:
    """Tiles of an ordinary image file, decoded and halved when the first is asked for: four thirds of its bytes.

    size: height and width at full resolution.
    """

    def __init__(self, path: Path, size: tuple[int, int], guard: Guard | None = None, *, max_pixels: int = MAX_PIXELS):
        self.size = size
        self._file = FileImage(path, max_pixels=max_pixels, guard=guard)
        self._levels: list[UInt8[np.ndarray, "h w 3"]] = []
        self._decoding = Lock()

    @property
    def num_bytes(self) -> int:
        """Memory of all levels."""
        return sum(level.nbytes for level in self._levels)

    def cut(self, halvings: int, x: int, y: int) -> Image.Image:
        """Tile (x, y) of a level."""
        rows, columns = (slice(i * TILE_PX, (i + 1) * TILE_PX) for i in (y, x))
        return Image.fromarray(np.ascontiguousarray(self._decoded()[halvings][rows, columns]))

    def _decoded(self) -> list[UInt8[np.ndarray, "h w 3"]]:
        with self._decoding:
            if not self._levels:
                pixels = self._file.pixels
                levels = [pixels if pixels.dtype == np.uint8 else (pixels * 255).round().astype(np.uint8)]
                for _ in range(last_level(pixels.shape[:2])):
                    levels.append(np.asarray(Image.fromarray(levels[-1]).reduce(2)))
                self._levels = levels
                del self._file
            return self._levels


class SlideTiles:
    """Tiles of a slide or pyramid of one file, each read from the nearest level of it that is fine enough.

    size: height and width at full resolution.
    """

    def __init__(self, path: Path, size: tuple[int, int], guard: Guard | None = None):
        self.size, self._path, self._guard = size, path, guard

    @property
    def num_bytes(self) -> int:
        """What the decoded tiles of its file may grow to while people look around; a guard's process has its own."""
        return 0 if self._guard else KEPT_BYTES

    @cached_property
    def _slide(self) -> SlideImage:
        return SlideImage(self._path, single_file=True, guard=self._guard)

    def cut(self, halvings: int, x: int, y: int) -> Image.Image:
        """Tile (x, y) of the picture that was halved `halvings` times."""
        scale = 2**halvings
        level, factor = self._nearest(scale)
        if scale / factor > READ_FACTOR:
            return self._put_together(halvings - 1, x, y)
        height, width = self.size
        edges = (x * TILE_PX * scale, y * TILE_PX * scale, (x + 1) * TILE_PX * scale, (y + 1) * TILE_PX * scale)
        shape = tuple(min(TILE_PX, -(-side // scale) - i * TILE_PX) for side, i in ((width, x), (height, y)))
        return self._read(level, (*edges[:2], min(edges[2], width), min(edges[3], height)), shape)

    def _nearest(self, scale: int) -> tuple[int, float]:
        """The coarsest level of the file that is at least as fine as `scale`, and how much coarser than level 0."""
        sizes = self._slide.pyramid.sizes
        factors = [max(sizes[0][0] / height, sizes[0][1] / width) for height, width in sizes]
        # Sides that do not divide are rounded, so a level of factor 2 may say 2.002.
        fine = [(factor, level) for level, factor in enumerate(factors) if factor <= 1.01 * scale]
        factor, level = max(fine)
        return level, factor

    def _read(self, level: int, edges: tuple[int, int, int, int], shape: tuple[int, ...]) -> Image.Image:
        (height, width), (rows, columns) = self.size, self._slide.pyramid.sizes[level]
        left, right = (edge * columns / width for edge in edges[::2])
        top, bottom = (edge * rows / height for edge in edges[1::2])
        box = Box(int(left), int(top), min(int(np.ceil(right)), columns), min(int(np.ceil(bottom)), rows))
        pixels = Image.fromarray(self._slide.pyramid.read(level, box))
        within = (left - box.left, top - box.top, min(right - box.left, pixels.width), bottom - box.top)
        return pixels.resize((shape[0], shape[1]), Image.Resampling.BOX, (*within[:3], min(within[3], pixels.height)))

    def _put_together(self, halvings: int, x: int, y: int) -> Image.Image:
        """A tile out of up to four of the next finer level, so that no large part is ever held."""
        height, width = (-(-side // 2**halvings) for side in self.size)
        left, top = 2 * x * TILE_PX, 2 * y * TILE_PX
        four = Image.new("RGB", (min(2 * TILE_PX, width - left), min(2 * TILE_PX, height - top)))
        for dy in range(-(-four.height // TILE_PX)):
            for dx in range(-(-four.width // TILE_PX)):
                four.paste(self.cut(halvings, 2 * x + dx, 2 * y + dy), (dx * TILE_PX, dy * TILE_PX))
        return four.reduce(2)


Tiles = PixelTiles | SlideTiles


def make_tile(tiles: Tiles, level: int, x: int, y: int) -> bytes | None:
    """The JPEG of a tile, or None where there is none."""
    halvings = last_level(tiles.size) - level
    if halvings < 0 or y >= _count(tiles.size[0], halvings) or x >= _count(tiles.size[1], halvings):
        return None
    file = BytesIO()
    tiles.cut(halvings, x, y).save(file, "JPEG", quality=QUALITY, subsampling=0)
    return file.getvalue()


def _count(side_px: int, halvings: int) -> int:
    return -(-side_px // (TILE_PX * 2**halvings))
