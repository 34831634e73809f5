"""features → pooled by attention between the slots, which know where they come from.

The paper: "3 self-attention layers with 8 heads, taking the sequence of patch representations as input augmented with a
learned additive positional encoding". As released: the encoding is a linear map of the indicator rows, that is
weight @ table[index], so a soft slot gets the same mixture of positions as of pixels; then a projection to 256,
post-norm layers with 512 hidden units and ReLU, dropout 0.1, and the sum over slots. The released code leaves dropout
on at evaluation; here it is off, as in any torch module.

Ours, for a start within hundreds of steps (docs/training.md): `encoding: sines` lets that table begin as sines and
cosines of a cell's place, so that near cells are alike and order can be read off at once, and `pre_norm` puts the layer
norms in front of what they normalise, which stands a three times higher learning rate.
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.extraction import Grid
from saccade.selection import Selection


def random_positions(cells: tuple[int, int], width: int) -> Float[Tensor, "N D"]:
    """Linear(N → D) applied to a row of indicators picks a row of its weight: a table, initialised like that layer."""
    bound = math.prod(cells) ** -0.5
    return torch.empty(math.prod(cells), width).uniform_(-bound, bound)


def sine_positions(cells: tuple[int, int], width: int) -> Float[Tensor, "N D"]:
    """sin and cos of f·y and f·x with y, x ∈ (0, 1) and frequencies f from π to 16π; the rest of `width` is zero.

    >>> sine_positions((1, 2), 4)[:, 2:]  # sin πx, cos πx at a quarter and three quarters of the width
    tensor([[ 0.7071,  0.7071],
            [ 0.7071, -0.7071]])
    """
    rows, cols = ((torch.arange(n) + 0.5) / n for n in cells)
    frequency = math.pi * torch.logspace(0, 1, width // 4, base=FINEST)
    places = torch.cartesian_prod(rows, cols)[..., None] * frequency  # N 2 D/4
    waves = torch.cat([places.sin(), places.cos()], dim=2).flatten(1)
    return F.pad(waves, (0, width - waves.shape[1]))


FINEST = 16  # half-waves across the image
ENCODINGS = {"random": random_positions, "sines": sine_positions}


class Transformer(nn.Module):
    """Slots B K D → B `dim`."""

    def __init__(
        self,
        width: int,
        *,
        cells: tuple[int, int],
        dim: int = 256,
        hidden: int = 512,
        layers: int = 3,
        heads: int = 8,
        dropout: float = 0.1,
        pre_norm: bool = False,
        encoding: Literal["random", "sines"] = "random",
    ):
        super().__init__()
        if encoding not in ENCODINGS:  # from a recipe it comes unchecked
            raise ValueError(f"encoding is {encoding!r}, expected one of {', '.join(ENCODINGS)}")
        self.cells = cells
        self.positions = nn.Parameter(ENCODINGS[encoding](cells, width))
        self.project = nn.Linear(width, dim)
        # One by one: nn.TransformerEncoder copies its first layer, initial weights included.
        self.encoder = nn.Sequential(
            *(
                nn.TransformerEncoderLayer(dim, heads, hidden, dropout, batch_first=True, norm_first=pre_norm)
                for _ in range(layers)
            )
        )
        self.norm = nn.LayerNorm(dim) if pre_norm else nn.Identity()
        self.width = dim

    def forward(self, features: Float[Tensor, "B K D"], selection: Selection, grid: Grid) -> Float[Tensor, "B E"]:
        """Pool the slots."""
        positions = selection.mix(self.position(selection.index, grid.shape))  # B K D
        return self.norm(self.encoder(self.project(features + positions)).sum(dim=1))

    def position(self, index: Int[Tensor, "B S"], cells: tuple[int, int]) -> Float[Tensor, "B S D"]:
        """`table(cells)[index]`, of which only the rows that are asked for are made: a slide may have a million."""
        if torch.compiler.is_exporting() or cells == self.cells:
            return self.table(cells)[index]
        rows, cols = self.cells
        chart = rearrange(self.positions, "(rows cols) d -> 1 d rows cols", rows=rows, cols=cols)
        x, y = (2 * (index % cells[1]) + 1) / cells[1] - 1, (2 * (index // cells[1]) + 1) / cells[0] - 1
        places = torch.stack([x, y], dim=-1)[None].to(chart)  # 1 B S 2
        sampled = F.grid_sample(chart, places, padding_mode="border", align_corners=False)
        return rearrange(sampled, "1 d b s -> b s d")

    def table(self, cells: tuple[int, int]) -> Float[Tensor, "N D"]:
        """A position per candidate; on a grid of another shape than in training, interpolated between the cells."""
        # A graph is traced once for all sizes; at this one interpolation changes nothing.
        if cells == self.cells and not torch.compiler.is_exporting():
            return self.positions
        rows, cols = self.cells
        chart = rearrange(self.positions, "(rows cols) d -> 1 d rows cols", rows=rows, cols=cols)
        chart = F.interpolate(chart, size=cells, mode="bilinear", align_corners=False)
        return rearrange(chart, "1 d rows cols -> (rows cols) d")
