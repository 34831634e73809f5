"""Bytes → view, a few rows at a time: an image need not be there as floats, nor whole, to be made small.

The antialiased bilinear resize is separable, with triangular weights along each axis, so every band of rows is resized
along its rows and then added to the rows of the view it touches,

    view[i] = Σ_j w_ij image[j] / Σ_j w_ij,    w_ij = max(0, 1 − |(j + ½)/s − (i + ½)|),    s = image rows / view rows,

which is the resize of the whole image without ever holding it.
"""

import math
from collections.abc import Iterable, Iterator

import numpy as np
import torch
import torch.nn.functional as F
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from saccade.images.boxes import to_float

PIECE_PX = 2**18  # resized at once: 3 MB of floats, which stay in the processor's cache


def resize(bands: Iterable[np.ndarray], old: tuple[int, int], new: tuple[int, int]) -> Float[Tensor, "3 h w"]:
    """Bands of an image of size `old`, from top to bottom, as one antialiased image of size `new`."""
    step = old[0] / new[0]
    reach = math.ceil(1 / min(step, 1.0))  # rows of the view beyond those that a row lies in
    weighted, weights = torch.zeros(3, *new), torch.zeros(new[0], 1)
    top = 0
    for piece in pieces(bands):
        bottom = top + len(piece)
        narrow = F.interpolate(to_float(piece)[None], (len(piece), new[1]), mode="bilinear", antialias=True)[0]
        touched = slice(max(int(top / step) - reach, 0), min(int(bottom / step) + reach + 1, new[0]))
        i = torch.arange(touched.start, touched.stop, dtype=torch.float64)[:, None]
        j = torch.arange(top, bottom, dtype=torch.float64)
        weight = (1 - ((j + 0.5) / step - (i + 0.5)).abs() * min(step, 1.0)).clamp(min=0).float()
        weighted[:, touched] += einsum(weight, narrow, "i j, c j w -> c i w")
        weights[touched] += weight.sum(1, keepdim=True)
        top = bottom
    return weighted.div_(weights)


def pieces(bands: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """The same rows, so few at a time that their floats take little memory."""
    for band in bands:
        rows = max(PIECE_PX // band.shape[1], 1)
        for top in range(0, len(band), rows):
            yield band[top : top + rows]
