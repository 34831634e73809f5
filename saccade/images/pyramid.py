"""The levels of a slide or tiled TIFF, and boxes of bytes out of them, through OpenSlide or tifffile.

OpenSlide reads the scanners' formats and plain tiled TIFFs, but it does not see levels kept in SubIFDs (as OME-TIFF
keeps them) and stumbles over some uncompressed files. tifffile reads those, but takes pages for levels only where all
shrink by the same factor of 2, 3 or 4; it decodes uncompressed, deflate, packbits and zstd tiles by itself, the other
compressions where the package `imagecodecs` is installed. So the reader that sees more levels is taken.

Some formats keep a slide in several files and name the others in the first, in any folder (VMS, VMU, MRXS, DICOM,
Trestle). A file from a stranger is therefore read with `single_file`: TIFFs alone, of scanners that keep all in one.
"""

import math
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import tifffile
from PIL import Image

from saccade.extras import how_to_install, is_installed
from saccade.images.bad_image import BadImage, Fault, require_file
from saccade.images.image_formats import SLIDE_SUFFIXES, is_tiff
from saccade.images.tiff import find_levels, microns_of, open_tiff, sensible_microns
from saccade.places import Ranged, UnreachableError

# Decoded tiles that are kept: candidates overlap, and those of two rows of tiles across 40,000 px find them here.
KEPT_BYTES = 2**27
# A tile is decoded whole, whatever part of it is wanted: a small file may hold a huge one.
MAX_TILE_PX = 2**24
# A row of a band is read at once: no scanner is a hundredth as wide.
MAX_SIDE_PX = 2**24
# OpenSlide's names of the formats that are one TIFF each; "hamamatsu" is NDPI where the file is a TIFF.
SINGLE_FILE = {"generic-tiff", "aperio", "hamamatsu", "leica", "philips", "ventana"}


class Box(NamedTuple):
    """Pixels of an image, right and bottom exclusive."""

    left: int
    top: int
    right: int
    bottom: int


class NotASlideError(ValueError):
    """Neither OpenSlide nor tifffile can read the file tile by tile; it may still be an ordinary image."""


def _is_like(size: tuple[int, int], whole: tuple[int, int]) -> bool:
    """Whether a level has the shape of the whole, give or take a pixel or a hundredth."""
    height = whole[0] * size[1] / whole[1]
    return abs(size[0] - height) <= max(1.0, 0.01 * height)


class OpenSlidePyramid:
    """Levels as OpenSlide sees them; what was never scanned is transparent there and white here."""

    library = "OpenSlide"

    def __init__(self, path: Path):
        import openslide  # an extra

        self._slide = openslide.OpenSlide(path)
        sizes = [(height, width) for width, height in self._slide.level_dimensions]
        # A tiled photograph of the label may be marked as a level, too.
        self._levels = [i for i, size in enumerate(sizes) if _is_like(size, sizes[0])]
        # Height and width of each level, the full image first.
        self.sizes = tuple(sizes[i] for i in self._levels)
        heights = (self._slide.properties.get(f"openslide.level[{i}].tile-height") for i in self._levels)
        self.tile_rows = tuple(int(height or 256) for height in heights)
        widths = (self._slide.properties.get(f"openslide.level[{i}].tile-width") for i in self._levels)
        for rows, width in zip(self.tile_rows, widths, strict=True):
            _refuse_huge(rows, int(width or 256))
        _refuse_absurd(self.sizes)
        told = (self._slide.properties.get(f"openslide.mpp-{axis}") for axis in "yx")
        self.mpp = sensible_microns(*told)

    def read(self, level: int, box: Box) -> np.ndarray:
        """The bytes of a box; OpenSlide places it by whole pixels of level 0, so within half of one of those."""
        there = self._levels[level]
        downsample = self._slide.level_downsamples[there]
        corner = round(box.left * downsample), round(box.top * downsample)
        scan = self._slide.read_region(corner, there, (box.right - box.left, box.bottom - box.top))
        pixels = Image.new("RGB", scan.size, "white")
        pixels.paste(scan, mask=scan.getchannel("A"))
        return np.array(pixels)


class TiffPyramid:
    """The levels of a TIFF's first image through tifffile, tile by tile (or strip by strip)."""

    library = "tifffile"

    def __init__(self, path: Path | Ranged):
        with open_tiff(path) as tiff:
            self._pages, self.mpp = find_levels(tiff), microns_of(tiff)
            for page in self._pages:
                _refuse_unreadable(page)
        if not self._pages[0].is_tiled and self._pages[0].chunks[0] >= self._pages[0].imagelength:
            raise NotASlideError("it is stored in one piece, so nothing is saved by reading parts of it")
        self.sizes = tuple((page.imagelength, page.imagewidth) for page in self._pages)
        _refuse_absurd(self.sizes)
        self.tile_rows = tuple(page.chunks[0] for page in self._pages)
        # A partial over the pages, not a method: a cycle would keep the tiles until the garbage is collected.
        kept = KEPT_BYTES // max(math.prod((*page.chunks[:2], 3)) for page in self._pages)
        self._tile = lru_cache(kept)(partial(_decode_tile, path, self._pages))

    def read(self, level: int, box: Box) -> np.ndarray:
        """The bytes of a box, decoding only the tiles it touches; tiles the file leaves out are white."""
        page = self._pages[level]
        rows, columns = page.chunks[:2]
        pixels = np.full((box.bottom - box.top, box.right - box.left, 3), 255, np.uint8)
        for y in range(box.top // rows, -(-box.bottom // rows)):
            for x in range(box.left // columns, -(-box.right // columns)):
                index = y * page.chunked[1] + x
                if page.databytecounts[index]:
                    _paste(self._tile(level, index), pixels, x * columns - box.left, y * rows - box.top)
        return pixels


_READABLE = (
    ("YX", np.uint8, 1, tifffile.PHOTOMETRIC.MINISBLACK, 1),
    ("YXS", np.uint8, 3, tifffile.PHOTOMETRIC.RGB, 1),
)


def _refuse_unreadable(page: tifffile.TiffPage) -> None:
    """Raise ValueError unless the tiles of `page` are upright 8-bit gray or RGB and can be decoded here."""
    # A JPEG decoder turns YCbCr into RGB by itself.
    color = tifffile.PHOTOMETRIC.RGB if page.compression == tifffile.COMPRESSION.JPEG else page.photometric
    layout = page.axes, page.dtype, page.samplesperpixel, color, page.tags.valueof("Orientation", 1)
    if layout not in _READABLE:
        raise NotASlideError(f"its pixels are {layout}: only upright 8-bit gray or RGB is read by tiles")
    _refuse_huge(*page.chunks[:2])
    page.decode(None, 0)  # without a decoder for this compression, a ValueError that names the missing package


def _refuse_huge(rows: int, columns: int) -> None:
    if rows * columns > MAX_TILE_PX:
        raise NotASlideError(f"its tiles or strips have {rows}×{columns} px, too many to read parts of it")


def _refuse_absurd(sizes: Sequence[tuple[int, int]]) -> None:
    if not all(0 < side <= MAX_SIDE_PX for size in sizes for side in size):
        raise NotASlideError(f"its levels have {sizes} px: a side may have 1 to {MAX_SIDE_PX}")


def _decode_tile(path: Path | Ranged, pages: Sequence[tifffile.TiffPage], level: int, index: int) -> np.ndarray:
    """Tile `index` of a level as bytes (height, width, 1 or 3), border tiles with their padding."""
    page = pages[level]
    # Opened anew, so that threads and forked workers share no position in the file.
    with path.open("rb") as file:
        file.seek(page.dataoffsets[index])
        encoded = file.read(page.databytecounts[index])
    data, _, _ = page.decode(encoded, index, jpegtables=page.jpegtables)
    if data is None:
        raise ValueError(f"tile {index} of {page} holds no pixels: the file is damaged; write it again")
    return data[0]


def _paste(tile: np.ndarray, pixels: np.ndarray, left: int, top: int) -> None:
    """Copy the part of `tile` that lies inside `pixels` when its corner is put at (left, top) there."""
    y, x = max(top, 0), max(left, 0)
    part = tile[y - top : pixels.shape[0] - top, x - left : pixels.shape[1] - left]
    pixels[y : y + part.shape[0], x : x + part.shape[1]] = part


@runtime_checkable
class Pyramid(Protocol):
    """Levels of one picture, the full image first, of which boxes of bytes can be read."""

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """Height and width of each level."""
        ...

    @property
    def tile_rows(self) -> tuple[int, ...]:
        """Height of the tiles or strips of each level."""
        ...

    @property
    def mpp(self) -> tuple[float, float] | None:
        """Microns per pixel of the full image, down and across; None where the file does not say."""
        ...

    def read(self, level: int, box: Box) -> np.ndarray:
        """The bytes of a box, H W 3."""
        ...


def open_pyramid(path: Path | Ranged, *, single_file: bool = False) -> OpenSlidePyramid | TiffPyramid:
    """The reader that sees the most levels, or a NotASlideError with what each of them said.

    single_file: open no file but this one, whatever it says. Formats that need others are refused.
    """
    require_file(path)
    if isinstance(path, Ranged):  # which OpenSlide cannot read; nothing but this file is opened
        try:
            return TiffPyramid(path)
        except UnreachableError:
            raise
        except Exception as error:
            raise NotASlideError(f"{path} cannot be read by tiles ({error}): open it as an ordinary file") from error
    # Asked about anything but a TIFF, OpenSlide looks for the other files of a slide.
    if single_file and not (is_tiff(path) and path.suffix.lower() != ".mrxs"):
        raise NotASlideError(f"{path} is no slide that is one TIFF file: open it as an ordinary file")
    opened, reasons = [], []
    for reader in _readers(path, single_file=single_file):
        try:
            opened.append(reader(path))
        except Exception as error:  # a damaged file can raise anything here
            reasons.append(f"{reader.library}: {error}")
    if not opened and path.suffix.lower() in SLIDE_SUFFIXES and not is_installed("slides"):
        raise BadImage(path, f"slides of scanners need OpenSlide: {how_to_install('slides')}", Fault.UNKNOWN)
    if not opened:
        raise NotASlideError(f"{path} cannot be read by tiles ({'; '.join(reasons)}): open it as an ordinary file")
    return max(opened, key=lambda pyramid: len(pyramid.sizes))


def _readers(path: Path, *, single_file: bool) -> tuple[type[OpenSlidePyramid] | type[TiffPyramid], ...]:
    if not is_installed("slides"):
        return (TiffPyramid,)
    import openslide

    vendor = openslide.OpenSlide.detect_format(path)
    if single_file and vendor not in SINGLE_FILE:
        return (TiffPyramid,)
    return (TiffPyramid, OpenSlidePyramid) if vendor in (None, "generic-tiff") else (OpenSlidePyramid, TiffPyramid)
