"""image, corners → regions: equally sized cuts of a batch of images, zero outside the image.

This is the only place that reads full-resolution pixels out of a tensor; extraction and `TensorImage` share it.
"""

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from saccade.images.source_batch import Sources


def cut_regions(
    image: Shaped[Tensor, "B C H W"] | Sources, left_top_px: Int[Tensor, "B R 2"], size: tuple[int, int]
) -> Shaped[Tensor, "B R C P Q"]:
    """Regions of `size` (height, width) whose left and top pixels are `left_top_px`, zero outside the image.

    Those of bytes are bytes, those of sources floats.

    >>> cut_regions(torch.ones(1, 1, 4, 4), torch.tensor([[[-1, 2]]]), (2, 3))
    tensor([[[[[0., 1., 1.],
               [0., 1., 1.]]]]])
    """
    if isinstance(image, Sources):
        return image.regions(left_top_px, size)
    # One copy per region moves memory at full speed on a CPU, faster than the indexing kernels there; on an
    # accelerator each copy is a launch, so a single gather wins. The gather is also what a compiler can follow, what
    # carries a gradient to the image in one node, and what knows bfloat16, which NumPy does not.
    wants_graph = torch.compiler.is_compiling() or (torch.is_grad_enabled() and image.requires_grad)
    if image.device.type == "cpu" and image.dtype != torch.bfloat16 and not wants_graph:
        return _cut_by_copies(image, left_top_px, size)
    return _cut_by_gather(image, left_top_px, size)


def _cut_by_copies(image: Tensor, left_top_px: Tensor, size: tuple[int, int]) -> Tensor:
    height, width = image.shape[-2:]
    regions = _empty_like_format(image, left_top_px.shape[1], size)
    # Through NumPy, which slices and copies small blocks in half of torch's time.
    for corners, source, targets in zip(left_top_px.tolist(), image.detach().numpy(), regions.numpy(), strict=True):
        for (left, top), target in zip(corners, targets, strict=True):
            y0, y1 = max(top, 0), min(top + size[0], height)
            x0, x1 = max(left, 0), min(left + size[1], width)
            if (y1 - y0, x1 - x0) == size:
                target[:] = source[:, y0:y1, x0:x1]
                continue
            target[:] = 0
            if y0 < y1 and x0 < x1:
                target[:, y0 - top : y1 - top, x0 - left : x1 - left] = source[:, y0:y1, x0:x1]
    return regions


def _empty_like_format(image: Tensor, count: int, size: tuple[int, int]) -> Tensor:
    """Uninitialized B R C P Q in the image's memory format, so that copies run along contiguous memory."""
    batch, channels = image.shape[:2]
    if image.is_contiguous(memory_format=torch.channels_last) and not image.is_contiguous():
        return image.new_empty(batch, count, *size, channels).permute(0, 1, 4, 2, 3)
    return image.new_empty(batch, count, channels, *size)


def _cut_by_gather(image: Tensor, left_top_px: Tensor, size: tuple[int, int]) -> Tensor:
    height, width = image.shape[-2:]
    left, top = left_top_px.to(image.device).unbind(-1)  # B R
    y = top[..., None] + torch.arange(size[0], device=image.device)  # B R P
    x = left[..., None] + torch.arange(size[1], device=image.device)  # B R Q
    inside = ((y >= 0) & (y < height))[..., :, None] & ((x >= 0) & (x < width))[..., None, :]  # B R P Q
    rows = y.clamp(0, height - 1)[..., :, None]
    cols = x.clamp(0, width - 1)[..., None, :]
    batch = torch.arange(image.shape[0], device=image.device)[:, None, None, None]
    regions = image.permute(0, 2, 3, 1)[batch, rows, cols]  # B R P Q C
    return torch.where(inside[..., None], regions, 0).permute(0, 1, 4, 2, 3)
