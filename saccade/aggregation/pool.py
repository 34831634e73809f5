"""features → pooled without parameters: mean, max, and concatenation over the K slots."""

from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from saccade.extraction import Candidates
from saccade.selection import Selection


class Mean(nn.Module):
    """The mean over slots; where each counts for its `share`, as in attention sampling, Σ_k share_k features_k."""

    def __init__(self, width: int):
        super().__init__()
        self.width = width

    def forward(
        self, features: Float[Tensor, "B K D"], selection: Selection, grid: Candidates | None
    ) -> Float[Tensor, "B D"]:
        """Pool the slots."""
        if selection.share is None:
            return features.mean(dim=1)
        return (selection.share[..., None] * features).sum(dim=1)


class Max(nn.Module):
    """The largest value of each feature over slots."""

    def __init__(self, width: int):
        super().__init__()
        self.width = width

    def forward(
        self, features: Float[Tensor, "B K D"], selection: Selection, grid: Candidates | None
    ) -> Float[Tensor, "B D"]:
        """Pool the slots."""
        return features.amax(dim=1)


class Concat(nn.Module):
    """All slots one after the other, in index order, as in NTS-Net."""

    def __init__(self, width: int, *, slots: int):
        super().__init__()
        self.width = width * slots

    def forward(
        self, features: Float[Tensor, "B K D"], selection: Selection, grid: Candidates | None
    ) -> Float[Tensor, "B KD"]:
        """Pool the slots."""
        return rearrange(features, "b k d -> b (k d)")
