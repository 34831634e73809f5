"""scores → Selection by SoftSort (Prillo & Eisenschlos 2020): the cheapest dense relaxation of a sort.

Slot j is a softmax of the distances to the j-th highest score, weight[j, i] = softmax_i(−|s_(j) − s_i| / τ). One sort,
one K×N table, no iteration. The gradient is exact, but for the relaxation: at τ > 0 the slots are mixtures, also of
candidates above the j-th, and inference looks at single candidates.
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
def softsort_topk(scores: Float[Tensor, "B N"], k: int, *, temperature: float = 0.01) -> Selection:
    """Rows 1 … K of SoftSort, the highest score first.

    temperature: τ, in units of the scores.

    A candidate that lies d below the K-th best weighs at most exp(−d/τ) in a slot; those that add up to less than 1e-9
    are left out. Scores are used as they are: see `normalize_scores`.

    >>> softsort_topk(torch.tensor([[0.0, 1.0, 0.5]]), 2).dense(3).round(decimals=4)
    tensor([[[0., 1., 0.],
             [0., 0., 1.]]])
    """
    check_scores(scores)
    check_k(k, scores.shape[1])
    check_temperature(temperature)
    with torch.autocast(scores.device.type, enabled=False):
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        index = within(scores, k, below=temperature * reach(k, scores.shape[1]))  # B S
        kept = scores.gather(1, index)
        ranked = kept.sort(dim=1, descending=True, stable=True).values[:, :k]
        distance = (ranked[:, :, None] - kept[:, None]).abs()  # B K S
        return Selection(index, (-distance / temperature).softmax(dim=2))


@register("selection", "softsort")
class SoftSortTopK(nn.Module, Selector):
    """A softmax around each of the K highest scores: `softsort_topk` in training, `hard_topk` in evaluation."""

    k: int
    score_order = True

    def __init__(self, k: int, *, temperature: float = 0.01):
        super().__init__()
        check_slots(k)
        check_temperature(temperature)
        self.k = k
        self.temperature = temperature

    def forward(self, scores: Float[Tensor, "B N"], grid: Candidates | None = None) -> Selection:
        """Select softly in training mode, hard in evaluation mode."""
        if not self.training:
            return hard_topk(scores, self.k)
        return softsort_topk(scores, self.k, temperature=self.temperature)
