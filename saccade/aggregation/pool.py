"""features → pooled without parameters: mean, max, and concatenation over the K slots.

What an aggregation makes of a slot `alone`, as if the image had no other, is asked by the mixture loss.
"""

from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from saccade.extraction import Candidates
from saccade.selection import Selection


class Pool(nn.Module):
    """What gives back a slot that is alone as it is."""

    def __init__(self, width: int):
        super().__init__()
        self.width = width

    def alone(
        self, features: Float[Tensor, "B K D"], selection: Selection, grid: Candidates | None
    ) -> Float[Tensor, "B K D"]:
        """Each slot as if there were no other."""
        return features


class Mean(Pool):
    """The mean over slots; where each counts for its `share`, as in attention sampling, Σ_k share_k features_k."""

    def forward(
        self, features: Float[Tensor, "B K D"], selection: Selection, grid: Candidates | None
    ) -> Float[Tensor, "B D"]:
        """Pool the slots."""
        if selection.share is None:
            return features.mean(dim=1)
        return (selection.share[..., None] * features).sum(dim=1).to(features.dtype)


class Max(Pool):
    """The largest value of each feature over slots."""

    def forward(
        self, features: Float[Tensor, "B K D"], selection: Selection, grid: Candidates | None
    ) -> Float[Tensor, "B D"]:
        """Pool the slots."""
        return features.amax(dim=1)


class Concat(nn.Module):
    """All slots one after the other, in index order, as in NTS-Net."""

    def __init__(self, width: int, *, slots: int):
        super().__init__()
        self.slots, self.width = slots, width * slots

    def forward(
        self, features: Float[Tensor, "B K D"], selection: Selection, grid: Candidates | None
    ) -> Float[Tensor, "B KD"]:
        """Pool the slots."""
        if features.shape[1] != self.slots:
            raise ValueError(
                f"concat was made for {self.slots} patches and got {features.shape[1]}: give images of the size in "
                "training, or use another aggregation"
            )
        return rearrange(features, "b k d -> b (k d)")
