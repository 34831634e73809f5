"""features → pooled by attention between the slots, which know where they come from.

The paper: "3 self-attention layers with 8 heads, taking the sequence of patch representations as input augmented with a
learned additive positional encoding". As released: a projection to 256 of features + `Positions`, post-norm layers with
512 hidden units and ReLU, dropout 0.1, and the sum over slots. The released code leaves dropout on at evaluation; here
it is off, as in any torch module.

Ours, for a start within hundreds of steps (docs/experiments.md): `encoding: sines`, and `pre_norm`, which puts the
layer norms in front of what they normalize and stands a higher learning rate.
"""

from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from saccade.aggregation.aggregator import Aggregator
from saccade.aggregation.position_encoding import Encoding, Positions
from saccade.registry import register
from saccade.selection import Candidates, Selection


@register("aggregation", "transformer")
class Transformer(nn.Module, Aggregator):
    """Attention between the slots, which know where they come from: the paper's. B K D → B `dim`."""

    needs_cells = True

    def __init__(
        self,
        width: int,
        *,
        cells: tuple[int, int],
        sizes: int = 1,
        dim: int = 256,
        hidden: int = 512,
        layers: int = 3,
        heads: int = 8,
        dropout: float = 0.1,
        pre_norm: bool = False,
        encoding: Encoding = "random",
    ):
        super().__init__()
        self.positions = Positions(cells, width, encoding=encoding, sizes=sizes)
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

    def forward(self, features: Float[Tensor, "B K D"], selection: Selection, grid: Candidates) -> Float[Tensor, "B E"]:
        """Pool the slots."""
        return self._attend(self._place(features, selection, grid))

    def alone(self, features: Float[Tensor, "B K D"], selection: Selection, grid: Candidates) -> Float[Tensor, "B K E"]:
        """Each slot as if there were no other to attend to."""
        slots = rearrange(self._place(features, selection, grid), "b k e -> (b k) 1 e")
        return rearrange(self._attend(slots), "(b k) e -> b k e", b=len(features))

    def _place(self, features: Tensor, selection: Selection, grid: Candidates) -> Float[Tensor, "B K E"]:
        return self.project(features + self.positions(selection, grid.shape))

    def _attend(self, placed: Float[Tensor, "B K E"]) -> Float[Tensor, "B E"]:
        return self.norm(self.encoder(placed).sum(dim=1))
