"""What a scorer says: a score for every candidate and, where it can, what it saw there."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class Scored(NamedTuple):
    """Raw scores, and the evidence E numbers wide that each came from (E = 0 for a scorer that only scores)."""

    scores: Float[Tensor, "B N"]
    evidence: Float[Tensor, "B N E"]


def attend(raw_scores: Float[Tensor, "B N"], evidence: Float[Tensor, "B N E"]) -> Float[Tensor, "B E"]:
    """What the scorer saw where it would look: Σ_n softmax(raw scores)_n · evidence_n.

    With equal scores this is the mean over the view, from which a network learns like any other; a score rises where
    the evidence is better than that mean.

    >>> attend(torch.zeros(1, 2), torch.tensor([[[1.0], [3.0]]]))
    tensor([[2.]])
    """
    return torch.einsum("bn,bne->be", raw_scores.softmax(dim=1), evidence)
