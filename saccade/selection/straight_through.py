"""scores → Selection by a straight-through top-K: hard forward, the gradient of a softmax.

Forward, slot k holds c_k, the k-th of the K best in index order. Backward, it is taken for the softmax over c_k and all
candidates that were not chosen, as if the other K − 1 slots were settled:

    weight[k, i] ≈ exp(s_i / τ) / Σ_l exp(s_l / τ)   over i, l ∈ {c_k} ∪ unchosen.

So a candidate's score rises if the loss, linearized at the chosen patches, would fall with it in some slot's place.
The gradient is BIASED: it belongs to another function than the forward. It takes no account of slots that a newcomer
would shift, and uses the loss's slope at the chosen patch where a swap is a jump. It is deterministic and cheap, and
training sees the same sharp patches as inference.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.registry import register
from saccade.selection.candidates import Candidates
from saccade.selection.hard import hard_topk
from saccade.selection.refusals import check_k, check_scores, check_slots
from saccade.selection.selection import Selection
from saccade.selection.selector import Selector
from saccade.selection.support import check_temperature, reach, uncompiled, within


@uncompiled
def straight_through_topk(scores: Float[Tensor, "B N"], k: int, *, temperature: float = 0.01) -> Selection:
    """The K highest scores in index order, as `hard_topk`, with a biased gradient of a softmax.

    temperature: τ of that softmax, in units of the scores. It changes the gradient only.

    The support also holds the candidates that get a gradient. Their weights are exactly zero, so the forward of an
    extraction skips them. One that lies d below the K-th best has at most the softmax weight exp(−d/τ); those that add
    up to less than 1e-9 are left out. Scores are used as they are: see `normalize_scores`.

    >>> straight_through_topk(torch.tensor([[0.0, 1.0, 0.5]]), 2).dense(3)
    tensor([[[0., 1., 0.],
             [0., 0., 1.]]])
    """
    check_scores(scores)
    check_k(k, scores.shape[1])
    check_temperature(temperature)
    with torch.autocast(scores.device.type, enabled=False):
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        index = within(scores, k, below=temperature * reach(k, scores.shape[1]))  # B S
        own = index[:, None] == hard_topk(scores, k).index[:, :, None]  # B K S
        elsewhere = own.any(dim=1, keepdim=True) & ~own
        logits = (scores.gather(1, index) / temperature)[:, None].masked_fill(elsewhere, -torch.inf)
        soft = logits.softmax(dim=2)
        return Selection(index, own.to(soft.dtype) + (soft - soft.detach()))


@register("selection", "straight_through")
class StraightThroughTopK(nn.Module, Selector):
    """The K highest scores, in training with the gradient of a softmax: `straight_through_topk`."""

    k: int

    def __init__(self, k: int, *, temperature: float = 0.01):
        super().__init__()
        check_slots(k)
        check_temperature(temperature)
        self.k = k
        self.temperature = temperature

    def forward(self, scores: Float[Tensor, "B N"], grid: Candidates | None = None) -> Selection:
        """Select the K highest scores, in training mode with a gradient."""
        if not self.training:
            return hard_topk(scores, self.k)
        return straight_through_topk(scores, self.k, temperature=self.temperature)
