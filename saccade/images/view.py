"""image → view: the small picture the scorer looks at.

The paper resizes the image with antialiased bilinear interpolation to (⌊H·scale⌋, ⌊W·scale⌋) before scoring.
Without antialiasing, small evidence falls between the sampled pixels and the scorer cannot find it.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from saccade.images.source_batch import Sources, unit_range


def view_size(image_size: tuple[int, int], scale: float) -> tuple[int, int]:
    """Height and width of the view of an image of `image_size` (height, width).

    >>> view_size((960, 1280), 1 / 3)
    (320, 426)
    """
    if not 0 < scale <= 1:
        raise ValueError(
            f"view scale is {scale}: it is the size of the view relative to the image, in (0, 1]; "
            "for a view three times smaller than the image pass 1 / 3"
        )
    # The tiny addend keeps ⌊870 · 0.1⌋ = 87 although 870 · 0.1 may come out just below the integer.
    height, width = (math.floor(side * scale + 1e-6) for side in image_size)
    if height < 1 or width < 1:
        raise ValueError(
            f"an image of {image_size[0]}×{image_size[1]} px has no pixel left at view scale {scale}: raise the scale"
        )
    return height, width


def make_view(
    image: Float[Tensor, "B C H W"] | UInt8[Tensor, "B C H W"] | Sources, scale: float
) -> Float[Tensor, "B C h w"]:
    """Antialiased bilinear resize of `image` to `view_size`; the image itself at scale 1.

    Of bytes it is that of the same image as floats, rounded to whole bytes: to within one of 255 steps the same view,
    ten times faster and without the floats.
    """
    if isinstance(image, Sources):
        return image.view(scale)
    size = view_size((image.shape[-2], image.shape[-1]), scale)
    if image.dtype == torch.uint8:
        return unit_range(resize_bytes(image, size))
    if size == tuple(image.shape[-2:]):
        return image
    # torch resizes half precision on GPUs only.
    whole = image.to(torch.promote_types(image.dtype, torch.float32))
    return F.interpolate(whole, size=size, mode="bilinear", antialias=True, align_corners=False).to(image.dtype)


def resize_bytes(image: UInt8[Tensor, "B C H W"], size: tuple[int, int]) -> UInt8[Tensor, "B C h w"]:
    """The same picture at another size (height, width), antialiased."""
    if size == tuple(image.shape[-2:]):
        return image
    # GPUs resize floats alone.
    of = image if image.device.type == "cpu" else image.float()
    small = F.interpolate(of, size=size, mode="bilinear", antialias=True, align_corners=False)
    return small if small.dtype == torch.uint8 else small.round_().byte()


class View(nn.Module):
    """`make_view` as a stage; `scale` is the size of the view relative to the image.

    tissue: only what the view shows tissue in is a candidate, not the white glass around it: for slides.
    """

    def __init__(self, scale: float = 1 / 3, tissue: bool = False):
        super().__init__()
        view_size((1_000_000, 1_000_000), scale)  # refuse a bad scale now, not at the first image
        self.scale, self.tissue = scale, tissue

    def forward(self, image: Float[Tensor, "B C H W"] | Sources) -> Float[Tensor, "B C h w"]:
        """The view of a batch of images."""
        return make_view(image, self.scale)
