"""A part of an image at another scale, as if all of it had been resized: antialiased, triangular weights.

    new[i] = Σ_j w_ij old[j] / Σ_j w_ij,    w_ij = max(0, 1 − |(j + ½) − s·(i + ½)| / max(s, 1)),    s = old / new

along each axis, which is what `bands.resize` makes of the whole.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor

from saccade.images.boxes import region_size, to_float
from saccade.images.pyramid import Box


class Axis(NamedTuple):
    """Old pixels from `first` on, and how much of each is in every new one; none of those outside the image."""

    first: int
    weight: Float[Tensor, "new old"]


def weigh(begin: int, end: int, new: int, old: int) -> Axis:
    """New pixels `begin` to `end` of an axis of `old` pixels that is resized to `new`.

    >>> weigh(0, 2, 2, 4)[1]
    tensor([[0.4286, 0.4286, 0.1429, 0.0000],
            [0.0000, 0.1429, 0.4286, 0.4286]], dtype=torch.float64)
    """
    step, reach = old / new, max(old / new, 1.0)
    first = min(max(math.floor((begin + 0.5) * step - reach), 0), old - 1)
    last = min(max(math.ceil((end - 0.5) * step + reach), first + 1), old)
    i = torch.arange(begin, end, dtype=torch.float64)[:, None]
    j = torch.arange(first, last, dtype=torch.float64)
    weight = (1 - ((j + 0.5) - step * (i + 0.5)).abs() / reach).clamp(min=0)
    weight = torch.where((i >= 0) & (i < new), weight, 0)
    return Axis(first, weight / weight.sum(dim=1, keepdim=True).clamp(min=1e-12))


def resample_regions(
    read: Callable[[Box], np.ndarray], boxes: Int[Tensor, "R 4"], *, old: tuple[int, int], new: tuple[int, int]
) -> Float[Tensor, "R 3 P Q"]:
    """The regions inside equally sized boxes of an image of size `old` that is resized to `new`, zero outside of it."""
    regions = torch.zeros(len(boxes), 3, *region_size(boxes))
    for region, (left, top, right, bottom) in zip(regions, boxes.tolist(), strict=True):
        if right <= 0 or bottom <= 0 or left >= new[1] or top >= new[0]:
            continue
        y, x = weigh(top, bottom, new[0], old[0]), weigh(left, right, new[1], old[1])
        pixels = to_float(read(Box(x.first, y.first, x.first + x.weight.shape[1], y.first + y.weight.shape[1])))
        narrow = einsum(x.weight.float(), pixels, "q w, c h w -> c h q")
        region.copy_(einsum(y.weight.float(), narrow, "p h, c h q -> c p q"))
    return regions
