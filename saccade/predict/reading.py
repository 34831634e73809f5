"""Whatever somebody calls an image → `ReadImage`: its bytes, or a source of which the model reads only parts.

Ordinary images are decoded whole, as in training and evaluation. A slide, and a file of more than `LARGE_PX` pixels,
stays where it is if the model can read it by parts; a model whose images are resized gets it from its pyramid.
"""

import math
import time
from functools import singledispatch
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor

from saccade.images import (
    FileImage,
    Guard,
    ImageSource,
    SlideImage,
    TensorImage,
    open_file,
    open_image,
    open_url,
    resize_bytes,
)
from saccade.images.decoding_cost import MAX_PIXELS
from saccade.images.image_formats import header_size
from saccade.looking import make_picture
from saccade.places import is_url
from saccade.preparation import Preparation, Size

LARGE_PX = 2**26  # 67 megapixels: 0.8 GB as floats

# The classes come first: to ask a file whether it fits the protocol is to ask for its size, and may decode it.
Source = TensorImage | FileImage | SlideImage | ImageSource
AnyImage = str | Path | Image.Image | np.ndarray | Tensor | Source


class ReadImage(NamedTuple):
    """An image on its way to the model: resized, not yet cropped.

    size:    the height and width it came with, before any resize.
    picture: all of it, as large as it is ever shown, if that was asked for; none of an image that is read by parts.
    """

    pixels: UInt8[Tensor, "3 h w"] | Source
    size: Size
    milliseconds: float
    picture: UInt8[np.ndarray, "h w 3"] | None = None

    @property
    def shown(self) -> Size:
        """Height and width of what goes to the model."""
        if isinstance(self.pixels, Tensor):
            return self.pixels.shape[-2], self.pixels.shape[-1]
        return self.pixels.size


class Reader(NamedTuple):
    """image → `ReadImage`; it can be sent to other processes.

    by_parts:    the model can read parts of an image.
    picture:     people will want to see the whole image, too.
    single_file: no file but the image's own is opened, whatever it says: for files of strangers.
    guard:       files are read in a process that can be killed.
    """

    preparation: Preparation = Preparation()
    by_parts: bool = True
    picture: bool = False
    single_file: bool = False
    guard: Guard | None = None

    @property
    def max_pixels(self) -> int:
        """Of an image that is decoded whole."""
        return self.preparation.max_pixels or MAX_PIXELS

    def open(self, image: AnyImage) -> Source:
        """The source of an image; ordinary files are not decoded yet."""
        if isinstance(image, str) and is_url(image):
            if self.single_file:
                raise ValueError(f"{image} is a URL: it is not opened, for only the one file may be")
            mpp = self.preparation.mpp
            return self._keep_slide(open_url(image, max_pixels=self.max_pixels, mpp=mpp, guard=self.guard))
        if isinstance(image, str | Path):
            return self._open_file(Path(image))
        return image if isinstance(image, Source) else open_image(image)

    def _open_file(self, path: Path) -> FileImage | SlideImage:
        safely = {"single_file": self.single_file, "guard": self.guard}
        return self._keep_slide(open_file(path, max_pixels=self.max_pixels, mpp=self.preparation.mpp, **safely))

    def _keep_slide(self, source: FileImage | SlideImage) -> FileImage | SlideImage:
        if isinstance(source, FileImage) or self.preparation.mpp:
            return source
        # Any TIFF in strips opens as a slide; a small one without levels is decoded as training decodes it.
        large = len(source.pyramid.sizes) > 1 or math.prod(source.size) > LARGE_PX
        if large or self.preparation.stream:
            return source
        return source.as_file(max_pixels=self.max_pixels)

    def __call__(self, image: AnyImage) -> ReadImage:
        """Read `image`, or the part of it that must be read now; a file that cannot be read raises `BadImage`."""
        begin = time.perf_counter()
        source = self.open(image)
        pixels = None if self._stays(source) else _decode(source)
        size = _size_as_it_came(source) if pixels is None else (pixels.shape[-2], pixels.shape[-1])
        shown = self._from_parts(source) if pixels is None else self._resize(pixels)
        whole = source if pixels is None else pixels
        picture = make_picture(whole) if self.picture and isinstance(shown, Tensor) else None
        return ReadImage(shown, size, 1000 * (time.perf_counter() - begin), picture)

    def _stays(self, source: Source) -> bool:
        """Whether it is an ordinary file of which the model is to read parts all the same."""
        if not isinstance(source, FileImage) or not self.by_parts or self.preparation.crop:
            return False
        return self.preparation.stream or _is_large(source)

    def _from_parts(self, source: Source) -> UInt8[Tensor, "3 h w"] | Source:
        (height, width), resize = source.size, self.preparation.resize
        if resize and resize[0] < height and resize[1] < width:
            return self._resize(_as_bytes(source.view(max(resize[0] / height, resize[1] / width))))
        if self.by_parts and not resize and not self.preparation.crop:
            return source
        if height * width > self.max_pixels:
            raise ValueError(
                f"{height}×{width} is {height * width / 1e6:,.0f} megapixels, and this model needs "
                f"the whole image in memory; the limit is {self.max_pixels / 1e6:,.0f} (max_pixels)"
            )
        if self.preparation.mpp:
            return _as_bytes(source.view(1.0))
        return self._resize(_as_bytes(source.regions(torch.tensor([[0, 0, width, height]]))[0]))

    def _resize(self, pixels: Tensor) -> Tensor:
        size = self.preparation.shown_size((pixels.shape[-2], pixels.shape[-1]))
        return resize_bytes(pixels[None], size)[0]


def _size_as_it_came(source: Source) -> Size:
    return source.file_size if isinstance(source, SlideImage) else source.size


def _is_large(source: FileImage) -> bool:
    """Whether a file would be too much as floats; only its header is read."""
    ask = source.guard.header_size if source.guard else header_size
    return math.prod(ask(source.path) or (0, 0)) > LARGE_PX  # whatever is wrong with it, decoding will say


@singledispatch
def _decode(source: Any) -> Tensor | None:
    """The bytes 3 H W of an image that is ordinary; None for others."""
    return None


@_decode.register
def _(source: FileImage) -> Tensor | None:
    return _as_bytes(rearrange(torch.from_numpy(source.pixels), "h w c -> c h w"))


@_decode.register
def _(source: TensorImage) -> Tensor | None:
    pixels = source.pixels
    if len(pixels) == 3 and pixels.dtype == torch.uint8:
        return pixels
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
