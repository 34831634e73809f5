"""features → pooled by attention between the slots, which know where they come from.

The paper: "3 self-attention layers with 8 heads, taking the sequence of patch representations as input augmented with a
learned additive positional encoding". As released: the encoding is a linear map of the indicator rows, that is
weight @ table[index], so a soft slot gets the same mixture of positions as of pixels; then a projection to 256,
post-norm layers with 512 hidden units and ReLU, dropout 0.1, and the sum over slots. The released code leaves dropout
on at evaluation; here it is off, as in any torch module.
"""

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.extraction import Grid
from saccade.selection import Selection


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
    ):
        super().__init__()
        self.cells = cells
        # Linear(N → D) applied to a row of indicators picks a row of its weight: a table, initialised like that layer.
        bound = (cells[0] * cells[1]) ** -0.5
        self.positions = nn.Parameter(torch.empty(cells[0] * cells[1], width).uniform_(-bound, bound))
        self.project = nn.Linear(width, dim)
        # One by one: nn.TransformerEncoder copies its first layer, initial weights included.
        self.encoder = nn.Sequential(
            *(nn.TransformerEncoderLayer(dim, heads, hidden, dropout, batch_first=True) for _ in range(layers))
        )
        self.width = dim

    def forward(self, features: Float[Tensor, "B K D"], selection: Selection, grid: Grid) -> Float[Tensor, "B E"]:
        """Pool the slots."""
        positions = selection.mix(self.position(selection.index, grid.shape))  # B K D
        return self.encoder(self.project(features + positions)).sum(dim=1)

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
