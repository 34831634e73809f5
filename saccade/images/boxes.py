"""boxes → regions, for sources that hand out bytes: what a box asks for, and zeros outside the image.

A box is left, top, right, bottom in whole pixels, right and bottom exclusive; it may lie partly or wholly outside.
"""

from collections.abc import Callable

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from saccade.images.pyramid import Box


def region_size(boxes: Int[Tensor, "R 4"]) -> tuple[int, int]:
    """Height and width shared by all boxes: the regions of one call are one tensor.

    >>> region_size(torch.tensor([[0, 0, 30, 20], [-5, 7, 25, 27]]))
    (20, 30)
    """
    sizes = torch.unique(boxes[:, 2:] - boxes[:, :2], dim=0).tolist()  # width, height
    if len(sizes) != 1 or min(sizes[0]) < 1:
        came = ", ".join(f"{width}×{height}" for width, height in sizes[:5]) or "none"
        raise ValueError(
            f"box sizes (width × height) are {came}: expected one positive size for all; boxes are left, top, right, "
            "bottom; read boxes of another size in a call of their own"
        )
    width, height = sizes[0]
    return height, width


def read_regions(
    read: Callable[[Box], np.ndarray], boxes: Int[Tensor, "R 4"], image_size: tuple[int, int]
) -> Float[Tensor, "R 3 P Q"]:
    """The regions inside equally sized boxes, zero outside the image; `read` sees only boxes inside the image."""
    height, width = image_size
    regions = torch.zeros(len(boxes), 3, *region_size(boxes))
    for region, (left, top, right, bottom) in zip(regions, boxes.tolist(), strict=True):
        box = Box(max(left, 0), max(top, 0), min(right, width), min(bottom, height))
        if box.left < box.right and box.top < box.bottom:
            inside = region[:, box.top - top : box.bottom - top, box.left - left : box.right - left]
            inside.copy_(to_float(read(box)))
    return regions


def to_float(pixels: Shaped[np.ndarray, "H W 3"]) -> Float[Tensor, "3 H W"]:
    """Bytes to [0, 1]; floats, from files of more than 8 bits, are there already."""
    tensor = rearrange(torch.from_numpy(pixels), "h w c -> c h w")
    return tensor / 255 if tensor.dtype == torch.uint8 else tensor
