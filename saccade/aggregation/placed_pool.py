"""features → pooled like mean and max, over slots that know where they come from.

Each slot by itself: a small network of features + `Positions`, so that "a nine at the left" can be a feature; then the
mean or the largest value over slots. Between mean and max, which cannot tell left from right unless the pixels do, and
the transformer, whose slots also know of each other.
"""

from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from saccade.aggregation.aggregator import Aggregator
from saccade.aggregation.pool import Max, Mean
from saccade.aggregation.position_encoding import Encoding, Positions
from saccade.registry import register
from saccade.selection import Candidates, Selection

POOLS = {"mean": Mean, "max": Max}


@register("aggregation", "placed")
class Placed(nn.Module, Aggregator):
    """The mean or the largest value over slots that know where they come from."""

    needs_cells = True

    def __init__(
        self,
        width: int,
        *,
        cells: tuple[int, int],
        sizes: int = 1,
        pool: Literal["mean", "max"] = "max",
        hidden: int = 192,
        encoding: Encoding = "sines",
    ):
        super().__init__()
        self.positions = Positions(cells, width, encoding=encoding, sizes=sizes)
        self.think = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width), nn.ReLU())
        self.pool = POOLS[pool](width)
        self.width = width

    def forward(self, features: Float[Tensor, "B K D"], selection: Selection, grid: Candidates) -> Float[Tensor, "B D"]:
        """Pool the slots."""
        return self.pool(self.alone(features, selection, grid), selection, grid)

    def alone(self, features: Float[Tensor, "B K D"], selection: Selection, grid: Candidates) -> Float[Tensor, "B K D"]:
        """What each slot shows and where."""
        return self.think(features + self.positions(selection, grid.shape))

    def give(
        self, features: Float[Tensor, "B K D"], selection: Selection, grid: Candidates
    ) -> Float[Tensor, "B K D"] | None:
        """What it gives to the mean, or to the largest value."""
        return self.pool.give(self.alone(features, selection, grid), selection, grid)

    def weigh(self, alone: Float[Tensor, "B K D"]) -> Float[Tensor, "B K"]:
        """What a patch shows and where may matter beside its score: by its first feature."""
        return alone[..., 0]
