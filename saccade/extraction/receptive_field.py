"""Which pixels of the view a score comes from.

Walking through a chain of convolutions and pools with kernel k, stride s and padding p, the receptive field grows by
(k − 1) · jump, its first center moves by ((k − 1)/2 − p) · jump, and the jump between neighbors multiplies by s. For
the paper's scorer (four valid 3×3 convolutions, 8×8 max-pool) that gives size 16, stride 8, first center at 8.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

from torch import nn


class ReceptiveField(NamedTuple):
    """Score i looks at `size` view pixels centered at offset + i · stride.

    tiles:  the view is padded until the cells of all scores together cover exactly it and no border is out of reach.
    before: pixels of that padding on the left and the top; 0 if the view is taken as it is.
    inner:  pixels that the layers themselves pad on each side, in pixels of the view.
    """

    size: int
    stride: int
    offset: float
    tiles: bool
    before: int
    inner: int = 0

    def cells(self, view_px: int) -> int:
        """How many scores there are along a view of `view_px` pixels."""
        if self.tiles:
            return (view_px + self.stride - 1) // self.stride
        cells = (view_px + 2 * self.inner - self.size) // self.stride + 1
        if cells < 1:
            raise ValueError(
                f"a view of {view_px} px is smaller than the scorer's receptive field of {self.size} px: "
                "raise the view scale, or use the aligned geometry, which pads the view"
            )
        return cells

    def padding(self, view_px: int) -> tuple[int, int]:
        """Pixels to add before and after a view of `view_px` pixels."""
        if not self.tiles:
            return 0, 0
        needed = self.size + (self.cells(view_px) - 1) * self.stride
        return self.before, needed - view_px - self.before - 2 * self.inner


def receptive_field(layers: Iterable[nn.Module], *, tiles: bool) -> ReceptiveField:
    """The receptive field of a chain of layers; those that are neither convolution nor pool do not move it.

    >>> receptive_field([nn.Conv2d(3, 8, 3), nn.MaxPool2d(8)], tiles=False)
    ReceptiveField(size=10, stride=8, offset=5.0, tiles=False, before=0, inner=0)
    """
    size, stride, center, inner = 1, 1, 0.5, 0
    for layer in layers:
        if isinstance(layer, nn.Conv2d | nn.MaxPool2d | nn.AvgPool2d):
            kernel, step, pad = (_side(value) for value in (layer.kernel_size, layer.stride, layer.padding))
            reach = (kernel - 1) * _side(getattr(layer, "dilation", 1))
            if getattr(layer, "ceil_mode", False):
                raise ValueError(f"{layer} rounds its output up: use ceil_mode=False, so that every cell is whole")
            center += (reach / 2 - pad) * stride
            size += reach * stride
            inner += pad * stride
            stride *= step
    # The first cell is [0, stride): padding moves the first center to its middle.
    before = math.floor(center - stride / 2) if tiles else 0
    return ReceptiveField(size, stride, center - before, tiles, before, inner)


def _side(value: int | str | tuple[int, ...]) -> int:
    if isinstance(value, tuple) and len(set(value)) == 1:
        value = value[0]
    if not isinstance(value, int):
        raise ValueError(f"a scorer layer has {value!r}, expected one number for both directions")
    return value
