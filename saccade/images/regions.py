"""image, corners → regions: equally sized cuts of a batch of images, zero outside the image.

This is the only place that reads full-resolution pixels out of a tensor; extraction and `TensorImage` share it.
"""

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor


def cut_regions(
    image: Float[Tensor, "B C H W"], left_top_px: Int[Tensor, "B R 2"], size: tuple[int, int]
) -> Float[Tensor, "B R C P Q"]:
    """Regions of `size` (height, width) whose left and top pixels are `left_top_px`, zero outside the image.

    >>> cut_regions(torch.ones(1, 1, 4, 4), torch.tensor([[[-1, 2]]]), (2, 3))
    tensor([[[[[0., 1., 1.],
               [0., 1., 1.]]]]])
    """
    # One copy per region moves memory at full speed on a CPU, three times faster than any indexing kernel
    # there; on an accelerator each copy is a launch, so a single gather wins.
    # A gradient to the image flows through the gather; copies would record one node per region.
    if image.device.type == "cpu" and not (torch.is_grad_enabled() and image.requires_grad):
        return _cut_by_copies(image, left_top_px, size)
    return _cut_by_gather(image, left_top_px, size)


def _cut_by_copies(image: Tensor, left_top_px: Tensor, size: tuple[int, int]) -> Tensor:
    height, width = image.shape[-2:]
    batch, count = left_top_px.shape[:2]
    pixels = image.permute(0, 2, 3, 1)  # B H W C
    regions = image.new_zeros(batch, count, *size, image.shape[1])  # B R P Q C
    for b, corners in enumerate(left_top_px.tolist()):
        for r, (left, top) in enumerate(corners):
            y0, y1 = max(top, 0), min(top + size[0], height)
            x0, x1 = max(left, 0), min(left + size[1], width)
            if y0 < y1 and x0 < x1:
                regions[b, r, y0 - top : y1 - top, x0 - left : x1 - left].copy_(pixels[b, y0:y1, x0:x1])
    return rearrange(regions, "b r p q c -> b r c p q")


def _cut_by_gather(image: Tensor, left_top_px: Tensor, size: tuple[int, int]) -> Tensor:
    height, width = image.shape[-2:]
    left, top = left_top_px.to(image.device).unbind(-1)  # B R
    y = top[..., None] + torch.arange(size[0], device=image.device)  # B R P
    x = left[..., None] + torch.arange(size[1], device=image.device)  # B R Q
    inside = ((y >= 0) & (y < height))[..., :, None] & ((x >= 0) & (x < width))[..., None, :]  # B R P Q
    rows = y.clamp(0, height - 1)[..., :, None]
    cols = x.clamp(0, width - 1)[..., None, :]
    batch = torch.arange(len(image), device=image.device)[:, None, None, None]
    regions = image.permute(0, 2, 3, 1)[batch, rows, cols]  # B R P Q C
    return rearrange(regions * inside[..., None], "b r p q c -> b r c p q")
