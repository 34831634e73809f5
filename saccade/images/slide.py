"""A slide or tiled pyramid: an image too large to decode, of which only parts are read.

The view comes from the smallest pyramid level that is at least as large as the view, read and resized in bands of rows.
Regions read nothing but their tiles at level 0.
"""

import math
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from saccade.images.bad_image import BadImage, Fault
from saccade.images.bands import pieces, resize
from saccade.images.boxes import read_regions, to_float
from saccade.images.file import FileImage
from saccade.images.guarded import Guard
from saccade.images.pyramid import Box, Pyramid, open_pyramid
from saccade.images.resample import resample_regions
from saccade.images.view import view_size
from saccade.places import Copy, RangedFile, UnreachableError, fetch

BAND_PX = 2**22  # read at once: 12 MB of bytes, large beside a tile
MAX_BAND_PX = 2**26  # and never more than this, however wide a slide and however high its tiles
MAX_VIEW_PX = 2**26  # 0.8 GB of floats
MAX_LEVEL_PX = 2**32  # read for one view, half a minute: a few kilobytes may say that a level is a million times that


COARSEST = 1.25  # times the microns asked for: more would have to be made up


def _check_microns(path: Path, scanned: tuple[float, float] | None, mpp: float) -> None:
    if scanned is None:
        raise BadImage(
            path,
            f"it does not say how many microns a pixel is, and images are to be seen at {mpp:g} microns per pixel "
            "(preparation.mpp): write it into the file, or leave this one out",
            Fault.UNKNOWN,
        )
    if max(scanned) > COARSEST * mpp:
        raise BadImage(
            path,
            f"it was scanned at {max(scanned):.3g} microns per pixel, too coarse for {mpp:g}: ask for more microns per "
            "pixel, or leave this one out",
            Fault.UNKNOWN,
        )


class Rows(NamedTuple):
    """A picture of `size` (height, width) from top to bottom, a few rows at a time: `pieces` are 3 rows W."""

    size: tuple[int, int]
    pieces: Iterator[Tensor]


class SlideImage:
    """An `ImageSource` over a slide or tiled pyramid; memory is bounded by `BAND_PX` and one row of tiles.

    It travels to other processes as its path, and a forked process opens the file again for itself.

    mpp:         microns per pixel at which it is seen, whatever it was scanned at; one that does not say is refused.
    single_file: open no file but this one, whatever it says: for files of strangers.
    guard:       read in a process that can be killed.
    """

    def __init__(
        self,
        path: str | Path | Copy | RangedFile,
        *,
        mpp: float | None = None,
        single_file: bool = False,
        guard: Guard | None = None,
    ):
        self.path, self.mpp, self.single_file, self.guard = Path(path), mpp, single_file, guard
        self._file = path  # a copy stays here as long as somebody has it
        self._pyramid, self._owner = self._open(), os.getpid()
        if mpp is not None:
            _check_microns(self.path, self.pyramid.mpp, mpp)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_pyramid": None, "_owner": None}

    def _open(self) -> Pyramid:
        opener = self.guard.open_pyramid if self.guard else open_pyramid
        return opener(self._file if isinstance(self._file, RangedFile) else self.path, single_file=self.single_file)

    def as_file(self, *, max_pixels: int) -> FileImage:
        """The same file as an ordinary one, which is decoded whole."""
        file = fetch(self._file.remote) if isinstance(self._file, RangedFile) else self._file
        return FileImage(file, max_pixels=max_pixels, guard=self.guard)

    @property
    def pyramid(self) -> Pyramid:
        """The open file."""
        # A file handle that a fork shares would be read by two processes from one position.
        if self._pyramid is None or self._owner != os.getpid():
            self._pyramid, self._owner = self._open(), os.getpid()
        return self._pyramid

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in pixels, of the file's own at full resolution or of `mpp` microns each."""
        scanned = self.pyramid.mpp
        if self.mpp is None or scanned is None:
            return self.file_size
        height, width = (max(round(n * had / self.mpp), 1) for n, had in zip(self.file_size, scanned, strict=True))
        return height, width

    @property
    def file_size(self) -> tuple[int, int]:
        """Height and width of what was scanned."""
        return self.pyramid.sizes[0]

    def view(self, scale: float) -> Float[Tensor, "3 h w"]:
        """The image resized to `view_size(size, scale)`, from the nearest level that is large enough."""
        size = view_size(self.size, scale)
        if math.prod(size) > MAX_VIEW_PX:
            raise BadImage(
                self.path,
                f"its view at scale {scale:.3g} would have {math.prod(size) / 1e6:,.0f} megapixels, the limit is "
                f"{MAX_VIEW_PX / 1e6:,.0f}: use a model with a smaller view scale",
                Fault.LARGE,
            )
        nearest = self._nearest(scale)
        return resize(self._bands(nearest), self.pyramid.sizes[nearest], size)

    def rows(self, scale: float) -> Rows:
        """The nearest level that is at least as large as the view at `scale`, as it is in the file."""
        nearest = self._nearest(scale)
        return Rows(self.pyramid.sizes[nearest], map(to_float, pieces(self._bands(nearest))))

    def _nearest(self, scale: float) -> int:
        levels = self.pyramid.sizes
        nearest = self._level_for(view_size(self.size, scale))
        if math.prod(levels[nearest]) > MAX_LEVEL_PX:
            raise BadImage(
                self.path,
                f"its view at scale {scale:.3g} would be made of {math.prod(levels[nearest]) / 1e6:,.0f} megapixels, "
                f"the limit is {MAX_LEVEL_PX / 1e6:,.0f}: make a pyramid of more levels of it",
                Fault.LARGE,
            )
        return nearest

    def _level_for(self, size: tuple[int, int]) -> int:
        """The smallest level that is at least as large, or the largest where none is."""
        levels = self.pyramid.sizes
        enough = [i for i, level in enumerate(levels) if level[0] >= size[0] and level[1] >= size[1]]
        return min(enough, key=lambda i: levels[i], default=0)

    def regions(self, boxes: Int[Tensor, "R 4"]) -> Float[Tensor, "R 3 P Q"]:
        """The pixels inside equally sized boxes (left, top, right, bottom), zero outside the image."""
        level = self._level_for(self.size)
        if (there := self.pyramid.sizes[level]) != self.size:
            return resample_regions(partial(self._read, level), boxes, old=there, new=self.size)
        return read_regions(partial(self._read, level), boxes, self.size)

    def _read(self, level: int, box: Box) -> np.ndarray:
        try:
            return self.pyramid.read(level, box)
        except (BadImage, UnreachableError):
            raise
        except Exception as error:  # decoders meet damaged tiles with almost any exception
            raise BadImage(self.path, f"damaged: {box} of level {level} cannot be read ({error})") from error

    def _bands(self, level: int) -> Iterator[np.ndarray]:
        """The rows of a level from top to bottom, whole tiles at a time so that none is decoded twice."""
        height, width = self.pyramid.sizes[level]
        tile_rows = self.pyramid.tile_rows[level]
        rows = max(BAND_PX // (width * tile_rows), 1) * tile_rows
        if rows * width > MAX_BAND_PX:
            rows = max(MAX_BAND_PX // width, 1)
        for top in range(0, height, rows):
            yield self._read(level, Box(0, top, width, min(top + rows, height)))
