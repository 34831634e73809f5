"""Where pixels come from: one interface over a tensor, an ordinary file, and a slide or tiled pyramid.

A model needs two things of an image: a small view of all of it, and a few regions at full resolution. A source gives
both (`sources.ImageSource`), reading no more than it must. The same picture gives the same regions from every source,
and the same view up to the resampler that made it.
"""

from contextlib import suppress
from functools import singledispatch
from pathlib import Path

import numpy as np
import torch
from einops import rearrange
from PIL import Image, ImageOps
from torch import Tensor
from torchvision.transforms.v2 import functional as v2

from saccade.files import shown
from saccade.images.bad_image import BadImage, Fault, blaming
from saccade.images.decoding_cost import MAX_PIXELS
from saccade.images.file import FileImage
from saccade.images.guarded import Guard
from saccade.images.image_formats import TIFF_MAGIC
from saccade.images.in_shards import at_hand
from saccade.images.pyramid import NotASlideError
from saccade.images.slide import SlideImage
from saccade.images.tensor import TensorImage
from saccade.places import RangedFile, RemoteFile, fetch, is_url

WHOLE_BYTES = 2**20  # up to this, one request fetches what several would fetch in parts

Opened = TensorImage | FileImage | SlideImage


_INTEGERS = (torch.uint8, torch.uint16, torch.bool)  # whose largest value is white


def open_file(
    path: Path,
    *,
    max_pixels: int = MAX_PIXELS,
    mpp: float | None = None,
    single_file: bool = False,
    guard: Guard | None = None,
) -> FileImage | SlideImage:
    """The source for a file, as a slide if it can be read by tiles; `BadImage` if it is no ordinary file at all.

    max_pixels:  refuse larger images that must be decoded whole
    mpp:         microns per pixel at which it is seen; what does not say how many it has is a `BadImage`
    single_file: open no file but this one, whatever it says: for files of strangers
    guard:       read in a process that can be killed
    """
    with at_hand(path) as file, blaming(Path(file)):
        try:
            # Beside an image that was taken out of a shard no other file is its own.
            return SlideImage(file, mpp=mpp, single_file=single_file or file is not path, guard=guard)
        except NotASlideError:
            _refuse_microns(path, mpp)
            return FileImage(file, max_pixels=max_pixels, guard=guard)


def _refuse_microns(path: Path, mpp: float | None) -> None:
    if mpp is not None:
        reason = f"no slide or tiled pyramid, so it cannot be seen at {mpp:g} microns per pixel; leave it out"
        raise BadImage(path, reason, Fault.UNKNOWN)


def open_url(
    url: str, *, max_pixels: int = MAX_PIXELS, mpp: float | None = None, guard: Guard | None = None
) -> FileImage | SlideImage:
    """The source for an image behind a URL: of a tiled TIFF only the tiles that are looked at are fetched.

    Everything else is fetched whole. No other file is opened or fetched, whatever it says: it may be a stranger's.
    """
    remote = RemoteFile(url)
    if (remote.size or 0) > WHOLE_BYTES and remote.ranged and remote.read(0, 4) in TIFF_MAGIC:
        with suppress(NotASlideError):
            return SlideImage(RangedFile(remote), mpp=mpp, single_file=True, guard=guard)
    copy = fetch(remote)
    with blaming(copy.path):
        try:
            return SlideImage(copy, mpp=mpp, single_file=True, guard=guard)
        except NotASlideError:
            _refuse_microns(copy.path, mpp)
            return FileImage(copy, max_pixels=max_pixels, guard=guard)


@singledispatch
def open_image(image: object) -> Opened:
    """The source for a path, a tensor (C H W), a NumPy array (H W 3 or H W) or a Pillow image.

    Integer pixels are scaled to [0, 1]. A path is read as a slide if OpenSlide or tifffile can read it by tiles.

    >>> open_image(torch.rand(3, 960, 1280)).view(1 / 4).shape
    torch.Size([3, 240, 320])
    """
    raise TypeError(
        f"a {type(image).__name__} is not an image source: expected a path, a tensor (C H W), a NumPy array (H W 3 or "
        "H W) or a Pillow image"
    )


@open_image.register(Path)
@open_image.register(str)
def _open_path(path: str | Path) -> Opened:
    if isinstance(path, str) and is_url(path):
        return open_url(path)
    if not Path(path).is_file():
        raise FileNotFoundError(f"no image at {shown(path)}: give the path of a file")
    return open_file(Path(path))


@open_image.register(Tensor)
def _open_tensor(pixels: Tensor) -> Opened:
    if pixels.ndim != 3:
        raise ValueError(f"a tensor of shape {tuple(pixels.shape)} is not one image: expected C H W")
    if not pixels.numel():
        raise ValueError(f"an image of shape {tuple(pixels.shape)} has no pixels")
    if not pixels.is_floating_point() and pixels.dtype not in _INTEGERS:
        raise ValueError(f"pixels of type {pixels.dtype} have no set range: give bytes (uint8), or floats of [0, 1]")
    return TensorImage(pixels if pixels.dtype == torch.uint8 else v2.to_dtype(pixels, torch.float32, scale=True))


@open_image.register(np.ndarray)
def _open_array(pixels: np.ndarray) -> Opened:
    if pixels.ndim == 2:
        pixels = np.stack([pixels] * 3, axis=-1)
    if pixels.ndim != 3 or pixels.shape[-1] != 3:
        raise ValueError(f"an array of shape {pixels.shape} is not an RGB or gray image: expected H W 3 or H W")
    # A copy: torch knows neither mirrored arrays nor ones that may not be written to.
    return open_image(rearrange(torch.from_numpy(np.array(pixels)), "h w c -> c h w"))


@open_image.register(Image.Image)
def _open_picture(picture: Image.Image) -> Opened:
    if picture.mode.startswith(("I", "F")):
        raise ValueError(
            f"a Pillow image of mode {picture.mode} has no set range: scale its array to [0, 1], pass that"
        )
    upright = ImageOps.exif_transpose(picture).convert("RGBA")
    white = Image.new("RGBA", upright.size, "white")
    return open_image(np.array(Image.alpha_composite(white, upright).convert("RGB")))
