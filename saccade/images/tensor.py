"""An image that is already a tensor, of bytes or floats: its view and its regions are `make_view` and `cut_regions`.

What the other sources give is defined by this one: the same picture from a file or a slide has the same view up to
its resampler, and the same regions.
"""

from jaxtyping import Float, Int, UInt8
from torch import Tensor

from saccade.images.boxes import region_size
from saccade.images.regions import cut_regions
from saccade.images.source_batch import unit_range
from saccade.images.view import make_view


class TensorImage:
    """An `ImageSource` over pixels in memory, on whatever device they are.

    >>> import torch
    >>> TensorImage(torch.rand(3, 60, 80)).view(1 / 2).shape
    torch.Size([3, 30, 40])
    """

    def __init__(self, pixels: Float[Tensor, "C H W"] | UInt8[Tensor, "C H W"]):
        self.pixels = pixels

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in pixels."""
        height, width = self.pixels.shape[-2:]
        return height, width

    @property
    def channels(self) -> int:
        """Numbers of each pixel."""
        return self.pixels.shape[0]

    def view(self, scale: float) -> Float[Tensor, "C h w"]:
        """The image resized to `view_size(size, scale)`."""
        return make_view(self.pixels[None], scale)[0]

    def regions(self, boxes: Int[Tensor, "R 4"]) -> Float[Tensor, "R C P Q"]:
        """The pixels inside equally sized boxes (left, top, right, bottom), zero outside the image."""
        return unit_range(cut_regions(self.pixels[None], boxes[None, :, :2], region_size(boxes))[0])
