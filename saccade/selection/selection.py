"""`Selection`: the one type between the stages.

Slot k of an image holds the mixture Σ_s weight[k, s] · candidate(index[s]). A hard selection has S = K and the
identity for weights; a perturbed one mixes every candidate that some draw chose. Everything downstream (patches,
positions, pictures) is that same mixture, so soft and hard share one code path and nothing of size B·K·N is needed.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class Selection(NamedTuple):
    """Which candidates matter, and how much of each goes into every slot.

    index:  the candidates that matter, ascending. Images that need fewer than S repeat no index; their surplus
            entries are real candidates with zero weight.
    weight: how much of candidate index[s] goes into slot k. Rows sum to one.
    hard:   True if weight is the identity and carries no gradient, so that mixing can be skipped.
    share:  how much each slot counts where the slots are samples of an expectation over all candidates; its gradient
            is the estimator's. None: all alike. Only the mean over slots knows what to do with it.

    >>> selection = Selection(torch.tensor([[1, 3]]), torch.tensor([[[0.25, 0.75]]]))
    >>> selection.dense(5)
    tensor([[[0.0000, 0.2500, 0.0000, 0.7500, 0.0000]]])
    """

    index: Int[Tensor, "B S"]
    weight: Float[Tensor, "B K S"]
    hard: bool = False
    share: Float[Tensor, "B K"] | None = None

    def dense(self, n: int) -> Float[Tensor, "B K N"]:
        """The indicators over all `n` candidates, for code that wants the paper's Yᵀ."""
        index = self.index[:, None].expand_as(self.weight)
        zeros = self.weight.new_zeros(*self.weight.shape[:2], n)
        return zeros.scatter_add(2, index, self.weight)

    @property
    def used(self) -> Bool[Tensor, "B S"]:
        """Which candidates are in a slot; the others fill up an image that needs fewer, or are there for the gradient.

        >>> Selection(torch.tensor([[1, 3]]), torch.tensor([[[0.0, 1.0]]])).used
        tensor([[False,  True]])
        """
        return (self.weight != 0).any(dim=1)

    def detach(self) -> "Selection":
        """The same choice without a gradient to the scores behind it."""
        share = None if self.share is None else self.share.detach()
        return self._replace(weight=self.weight.detach(), share=share)

    def mix(self, values: Float[Tensor, "B S D"]) -> Float[Tensor, "B K D"]:
        """Slot values from candidate values: weight @ values."""
        return values if self.hard else self.weight.to(values.dtype) @ values

    def look_up(self, values: Float[Tensor, "B N"]) -> Float[Tensor, "B K"]:
        """Slot values from one value for each of all candidates.

        >>> Selection(torch.tensor([[1, 3]]), torch.tensor([[[0.25, 0.75]]])).look_up(torch.tensor([[0.0, 4, 0, 8]]))
        tensor([[7.]])
        """
        chosen = values.gather(1, self.index)
        # Not a matrix product, of which autocast would make bfloat16: scores that differ would become equal.
        return chosen if self.hard else (self.weight * chosen[:, None]).sum(dim=2)


def identity_selection(index: Int[Tensor, "B K"], dtype: torch.dtype) -> Selection:
    """The hard selection of `index`, one candidate a slot."""
    batch, k = index.shape
    weight = torch.eye(k, dtype=dtype, device=index.device).expand(batch, k, k)
    return Selection(index, weight, hard=True)


def zero_gradient(selection: Selection, scores: Float[Tensor, "B N"]) -> Selection:
    """The same choice, tied to the scores: a scorer in training receives a zero gradient rather than none."""
    return Selection(selection.index, selection.weight + (0 * scores).sum(dim=1)[:, None, None])
