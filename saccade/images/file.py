"""An ordinary image file (JPEG, PNG, TIFF, …), decoded by Pillow.

Such a file has no parts that could be read alone: `regions` decodes it whole, at the first call, and keeps the bytes.
A JPEG's view does without: it is made from the low frequencies of the file's cosine transform.
"""

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from saccade.images.bands import resize
from saccade.images.boxes import read_regions, to_float
from saccade.images.decode import read_pixels
from saccade.images.decoding_cost import MAX_PIXELS
from saccade.images.guarded import Guard
from saccade.images.jpeg import DCT_MARGIN, jpeg_size, shrink_jpeg
from saccade.images.view import view_size
from saccade.places import Copy


class FileImage:
    """An `ImageSource` over one file; it travels to other processes as its path and is decoded where it is used.

    guard: decode in a process that can be killed.
    """

    def __init__(self, path: str | Path | Copy, *, max_pixels: int = MAX_PIXELS, guard: Guard | None = None):
        self.path, self.max_pixels, self.guard = Path(path), max_pixels, guard
        self._file = path  # a copy stays here as long as somebody has it

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "max_pixels": self.max_pixels, "guard": self.guard, "_file": self._file}

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the upright picture in pixels."""
        ask = self.guard.jpeg_size if self.guard else jpeg_size
        height, width = ask(self.path, max_pixels=self.max_pixels) or self.pixels.shape[:2]
        return height, width

    @property
    def file_size(self) -> tuple[int, int]:
        """The same: it is seen as it is."""
        return self.size

    def view(self, scale: float) -> Float[Tensor, "3 h w"]:
        """The image resized to `view_size(size, scale)`; a JPEG at a scale up to 1/3 is never decoded whole."""
        ask = self.guard.jpeg_size if self.guard else jpeg_size
        size = ask(self.path, max_pixels=self.max_pixels) if scale * DCT_MARGIN <= 1 / 2 else None
        if size is None:
            return resize(
                [self.pixels], self.size, view_size(self.size, scale)
            )  # its floats would be four times as much
        shrink = self.guard.shrink_jpeg if self.guard else shrink_jpeg
        return to_float(shrink(self.path, view_size(size, scale), max_pixels=self.max_pixels))

    def regions(self, boxes: Int[Tensor, "R 4"]) -> Float[Tensor, "R 3 P Q"]:
        """The pixels inside equally sized boxes (left, top, right, bottom), zero outside the image."""
        return read_regions(lambda box: self.pixels[box.top : box.bottom, box.left : box.right], boxes, self.size)

    @cached_property
    def pixels(self) -> np.ndarray:
        """The whole picture as `read_pixels` gives it, kept once it has been read."""
        read = self.guard.read_pixels if self.guard else read_pixels
        return read(self.path, max_pixels=self.max_pixels)
