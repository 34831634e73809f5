"""Whatever somebody calls an image → `Picture`: its bytes, or a source of which the model reads only parts.

Ordinary images are decoded whole, as in training and evaluation. A slide, and a file of more than `LARGE_PX` pixels,
stays where it is if the model can read it by parts; a recipe that resizes gets it from its pyramid.
"""

import math
import time
from functools import singledispatch
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor

from saccade.images import FileImage, ImageSource, NotASlideError, SlideImage, TensorImage, open_image
from saccade.images.decode import MAX_PIXELS, BadImage, open_lazily, read_pixels

LARGE_PX = 2**26  # 67 megapixels: 0.8 GB as floats

# The classes come first: to ask a file whether it fits the protocol is to ask for its size, and may decode it.
Source = TensorImage | FileImage | SlideImage | ImageSource
AnyImage = str | Path | Image.Image | np.ndarray | Tensor | Source


class Picture(NamedTuple):
    """An image on its way to the model; `size` is the height and width it came with, before any resize."""

    pixels: UInt8[Tensor, "3 h w"] | Source
    size: tuple[int, int]
    milliseconds: float

    @property
    def shown(self) -> tuple[int, int]:
        """Height and width of what goes to the model."""
        if isinstance(self.pixels, Tensor):
            return self.pixels.shape[-2], self.pixels.shape[-1]
        return self.pixels.size


class Reader(NamedTuple):
    """image → `Picture`; it can be sent to other processes.

    by_parts: the model can read parts of an image.
    stream:   it has learnt from parts (`model.preparation.stream`), so that small files are read by parts too.
    """

    resize: tuple[int, int] | None = None
    max_pixels: int = MAX_PIXELS
    by_parts: bool = True
    stream: bool = False

    def open(self, image: AnyImage) -> Source:
        """The source of an image; ordinary files are not decoded yet."""
        if isinstance(image, str | Path):
            return self._open_file(Path(image))
        return image if isinstance(image, Source) else open_image(image)

    def _open_file(self, path: Path) -> FileImage | SlideImage:
        if not path.is_file():
            raise BadImage(path, "a folder, expected an image file" if path.is_dir() else "no such file")
        try:
            slide = SlideImage(path)
        except NotASlideError:
            return FileImage(path, max_pixels=self.max_pixels)
        # Any TIFF in strips opens as a slide; a small one without levels is decoded as training decodes it.
        large = len(slide.pyramid.sizes) > 1 or math.prod(slide.size) > LARGE_PX
        return slide if large or self.stream else FileImage(path, max_pixels=self.max_pixels)

    def __call__(self, image: AnyImage) -> Picture:
        """Read `image`, or the part of it that must be read now; a file that cannot be read raises `BadImage`."""
        begin = time.perf_counter()
        source = self.open(image)
        large = self.by_parts and (_is_large(source) or (self.stream and hasattr(source, "path")))
        pixels = None if large else _decode(source)
        size = source.size if pixels is None else (pixels.shape[-2], pixels.shape[-1])
        if pixels is None:
            pixels = self._from_parts(source)
        elif self.resize and self.resize != size:
            pixels = _resize(pixels, self.resize)
        return Picture(pixels, size, 1000 * (time.perf_counter() - begin))

    def _from_parts(self, source: Source) -> UInt8[Tensor, "3 h w"] | Source:
        height, width = source.size
        if self.resize and self.resize[0] < height and self.resize[1] < width:
            scale = max(self.resize[0] / height, self.resize[1] / width)
            return _as_bytes(_resize(source.view(scale), self.resize))
        if self.by_parts and not self.resize:
            return source
        if height * width > self.max_pixels:
            raise ValueError(
                f"{height}×{width} is {height * width / 1e6:,.0f} megapixels, and this model needs "
                f"the whole image in memory; the limit is {self.max_pixels / 1e6:,.0f} (max_pixels)"
            )
        whole = _as_bytes(source.regions(torch.tensor([[0, 0, width, height]]))[0])
        return _resize(whole, self.resize) if self.resize else whole


def _is_large(source: Source) -> bool:
    """Whether it is a file that would be too much as floats; only its header is read."""
    if not isinstance(source, FileImage):
        return False
    try:
        with open_lazily(source.path) as image:
            return math.prod(image.size) > LARGE_PX
    except OSError:  # whatever is wrong with it, decoding will say
        return False


@singledispatch
def _decode(source: Any) -> Tensor | None:
    """The bytes 3 H W of an image that is ordinary; None for others."""
    return None


@_decode.register
def _(source: FileImage) -> Tensor | None:
    pixels = torch.from_numpy(read_pixels(source.path, max_pixels=source.max_pixels))
    return _as_bytes(rearrange(pixels, "h w c -> c h w"))


@_decode.register
def _(source: TensorImage) -> Tensor | None:
    pixels = source.pixels
    low, high = float(pixels.min()), float(pixels.max())
    if len(pixels) != 3 or not (low >= 0 and high <= 1):  # also false for NaN
        raise ValueError(
            f"an image of {len(pixels)} channels with values from {low:g} to {high:g}: expected RGB, 3 H W for tensors "
            "and H W 3 for arrays, in bytes or in floats of [0, 1]"
        )
    return _as_bytes(pixels)


def _as_bytes(pixels: Float[Tensor, "3 h w"] | UInt8[Tensor, "3 h w"]) -> UInt8[Tensor, "3 h w"]:
    """As the data set makes them, finer files and floats included: the model has learnt from bytes."""
    return pixels if pixels.dtype == torch.uint8 else (pixels * 255).round().clamp(0, 255).byte()


def _resize(pixels: Tensor, size: tuple[int, int]) -> Tensor:
    return F.interpolate(pixels[None], size=size, mode="bilinear", antialias=True, align_corners=False)[0]
