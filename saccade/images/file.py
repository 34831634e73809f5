"""An ordinary image file (JPEG, PNG, TIFF, …).

Such a file has no parts that could be read alone: it is decoded whole at the first call, and its bytes are kept. View
and regions are made of those, so that nothing as large as the image is ever there as floats.
"""

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from saccade.images.decode import read_pixels
from saccade.images.decoding_cost import MAX_PIXELS
from saccade.images.guarded import Guard
from saccade.images.tensor import TensorImage
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
        return self._whole.size

    @property
    def file_size(self) -> tuple[int, int]:
        """The same: it is seen as it is."""
        return self.size

    def view(self, scale: float) -> Float[Tensor, "3 h w"]:
        """The image resized to `view_size(size, scale)`."""
        return self._whole.view(scale)

    def regions(self, boxes: Int[Tensor, "R 4"]) -> Float[Tensor, "R 3 P Q"]:
        """The pixels inside equally sized boxes (left, top, right, bottom), zero outside the image."""
        return self._whole.regions(boxes)

    @cached_property
    def _whole(self) -> TensorImage:
        return TensorImage(rearrange(torch.from_numpy(self.pixels), "h w c -> c h w"))

    @cached_property
    def pixels(self) -> np.ndarray:
        """The whole picture as `read_pixels` gives it, kept once it has been read."""
        read = self.guard.read_pixels if self.guard else read_pixels
        return read(self.path, max_pixels=self.max_pixels)
