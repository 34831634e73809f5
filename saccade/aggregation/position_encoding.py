"""Selection → positions of the slots: a learned row for each candidate, mixed as the patches are.

As released, the encoding is a linear map of the indicator rows, that is weight @ table[index], so a soft slot gets the
same mixture of positions as of pixels. The table begins as that linear layer would (`random`), or as sines and
cosines of each cell's place (`sines`, ours): near cells are then alike from the first step and order can be read off.
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.selection import Selection

Encoding = Literal["random", "sines"]
FINEST = 16  # half-waves across the image


def random_positions(cells: tuple[int, int], width: int, sizes: int = 1) -> Float[Tensor, "N D"]:
    """Linear(N → D) applied to a row of indicators picks a row of its weight: a table, initialized like that layer."""
    candidates = sizes * math.prod(cells)
    bound = candidates**-0.5
    return torch.empty(candidates, width).uniform_(-bound, bound)


def sine_positions(cells: tuple[int, int], width: int, sizes: int = 1) -> Float[Tensor, "N D"]:
    """sin and cos of f·y and f·x with y, x ∈ (0, 1) and frequencies f from π to 16π; the rest of `width` is zero.

    They say where and not how large: rows of different sizes begin alike.

    >>> sine_positions((1, 2), 4)[:, 2:]  # sin πx, cos πx at a quarter and three quarters of the width
    tensor([[ 0.7071,  0.7071],
            [ 0.7071, -0.7071]])
    """
    rows, cols = ((torch.arange(n) + 0.5) / n for n in cells)
    frequency = math.pi * torch.logspace(0, 1, width // 4, base=FINEST)
    places = torch.cartesian_prod(rows, cols)[..., None] * frequency  # N 2 D/4
    waves = torch.cat([places.sin(), places.cos()], dim=2).flatten(1)
    return F.pad(waves, (0, width - waves.shape[1])).repeat(sizes, 1)


ENCODINGS = {"random": random_positions, "sines": sine_positions}


class Positions(nn.Module):
    """A table of `width` numbers for each of the `cells` (rows, columns) that training has, at each of `sizes`."""

    def __init__(self, cells: tuple[int, int], width: int, *, encoding: Encoding = "random", sizes: int = 1):
        super().__init__()
        self.cells, self.sizes = cells, sizes
        self.weight = nn.Parameter(ENCODINGS[encoding](cells, width, sizes))

    def forward(self, selection: Selection, cells: tuple[int, int]) -> Float[Tensor, "B K D"]:
        """Where the slots of a selection among `cells` come from."""
        return selection.mix(self.rows(selection.index, cells))

    def rows(self, index: Int[Tensor, "B S"], cells: tuple[int, int]) -> Float[Tensor, "B S D"]:
        """`table(cells)[index]`, of which only the rows that are asked for are made: a slide may have a million."""
        if torch.compiler.is_exporting() or cells == self.cells:
            return self.table(cells)[index]
        size, cell = index // math.prod(cells), index % math.prod(cells)
        x, y = (2 * (cell % cells[1]) + 1) / cells[1] - 1, (2 * (cell // cells[1]) + 1) / cells[0] - 1
        # Half precision cannot tell the places of a large grid apart, and on a CPU torch samples it wrongly altogether.
        chart = self._chart().to(torch.promote_types(self.weight.dtype, torch.float32))
        places = torch.stack([x, y], dim=-1).to(chart).expand(self.sizes, -1, -1, -1)  # sizes B S 2
        sampled = F.grid_sample(chart, places, padding_mode="border", align_corners=False)
        sampled = rearrange(sampled, "sizes d b s -> sizes b s d")
        return torch.take_along_dim(sampled, size[None, ..., None], dim=0)[0].to(self.weight.dtype)

    def table(self, cells: tuple[int, int]) -> Float[Tensor, "N D"]:
        """A position per candidate; on a grid of another shape than in training, interpolated between the cells."""
        # A graph is traced once for all sizes; at this one interpolation changes nothing.
        if cells == self.cells and not torch.compiler.is_exporting():
            return self.weight
        chart = F.interpolate(self._chart(), size=cells, mode="bilinear", align_corners=False)
        return rearrange(chart, "sizes d rows cols -> (sizes rows cols) d")

    def _chart(self) -> Float[Tensor, "sizes D rows cols"]:
        rows, cols = self.cells
        return rearrange(self.weight, "(sizes rows cols) d -> sizes d rows cols", rows=rows, cols=cols)
