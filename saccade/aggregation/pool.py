"""features → pooled without parameters: mean, max, and concatenation over the K slots."""

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from saccade.aggregation.aggregator import Aggregator
from saccade.registry import register
from saccade.selection import Candidates, Selection


class Pool(nn.Module, Aggregator):
    """What gives as many numbers as it gets for a slot."""

    def __init__(self, width: int):
        super().__init__()
        self.width = width


@register("aggregation", "mean")
class Mean(Pool):
    """The mean over slots; where each counts for its `share`, as in attention sampling, Σ_k share_k features_k."""

    means_samples = True

    def forward(
        self, features: Float[Tensor, "B K D"], selection: Selection, grid: Candidates | None
    ) -> Float[Tensor, "B D"]:
        """Pool the slots."""
        if selection.share is None:
            return features.mean(dim=1)
        return (selection.share[..., None] * features).sum(dim=1).to(features.dtype)

    def give(
        self, features: Float[Tensor, "B K D"], selection: Selection, grid: Candidates | None
    ) -> Float[Tensor, "B K D"]:
        """Its share of the features."""
        share = 1 / features.shape[1] if selection.share is None else selection.share[..., None]
        return share * features


@register("aggregation", "max")
class Max(Pool):
    """The largest value of each feature over slots."""

    def forward(
        self, features: Float[Tensor, "B K D"], selection: Selection, grid: Candidates | None
    ) -> Float[Tensor, "B D"]:
        """Pool the slots."""
        return features.amax(dim=1)

    def give(
        self, features: Float[Tensor, "B K D"], selection: Selection, grid: Candidates | None
    ) -> Float[Tensor, "B K D"]:
        """Each feature from the slot where it is largest, of equal ones the first."""
        first = F.one_hot(features.argmax(dim=1), features.shape[1])  # B D K
        return rearrange(first, "b d k -> b k d") * features


@register("aggregation", "concat")
class Concat(nn.Module, Aggregator):
    """All slots one after the other, in index order, as in NTS-Net."""

    needs_order = True
    answers_alone = False

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

    def give(
        self, features: Float[Tensor, "B K D"], selection: Selection, grid: Candidates | None
    ) -> Float[Tensor, "B K KD"]:
        """Its own place in the row, zeros elsewhere."""
        own = torch.eye(self.slots, dtype=features.dtype, device=features.device)
        return rearrange(own[None, :, :, None] * features[:, None], "b k j d -> b k (j d)")
