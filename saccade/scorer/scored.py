"""What a scorer offers, and what it says: a score for every candidate and, where it can, what it saw there."""

from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.extraction import ReceptiveField


class Scored(NamedTuple):
    """Raw scores, and the evidence E numbers wide that each came from (E = 0 for a scorer that only scores)."""

    scores: Float[Tensor, "B N"]
    evidence: Float[Tensor, "B N E"]


@runtime_checkable
class Scorer(Protocol):
    """view B C h w → `Scored`.

    width: of the evidence.
    field: which part of the view a score is of.
    """

    width: int
    field: ReceptiveField

    def __call__(self, view: Float[Tensor, "B C h w"]) -> Scored:
        """One score per cell, row by row, and what was seen there."""
        ...


def attend(raw_scores: Float[Tensor, "B N"], evidence: Float[Tensor, "B N E"]) -> Float[Tensor, "B E"]:
    """What the scorer saw where it would look: Σ_n softmax(raw scores)_n · evidence_n.

    With equal scores this is the mean over the view, from which a network learns like any other; a score rises where
    the evidence is better than that mean.

    >>> attend(torch.zeros(1, 2), torch.tensor([[[1.0], [3.0]]]))
    tensor([[2.]])
    """
    return torch.einsum("bn,bne->be", raw_scores.softmax(dim=1), evidence)
