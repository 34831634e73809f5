"""logits, labels, raw scores → loss: cross-entropy minus an entropy bonus.

L = CE(logits, label) − c · H(softmax(raw scores)). Maximising the entropy keeps the scorer from being sure of the
wrong patches early in training; the paper has c = 0.01, and 0.05 for CUB.
"""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def score_entropy(raw_scores: Float[Tensor, "B N"]) -> Float[Tensor, ""]:
    """H = −Σ p log p in nats with p the softmax of the scores before normalisation; the mean over the batch.

    >>> import torch
    >>> score_entropy(torch.zeros(2, 4)).exp()
    tensor(4.)
    """
    log_p = raw_scores.log_softmax(dim=1)
    return -(log_p.exp() * log_p).sum(dim=1).mean()


def selection_loss(
    logits: Float[Tensor, "B L"],
    label: Int[Tensor, " B"],
    raw_scores: Float[Tensor, "B N"],
    *,
    entropy_coefficient: float = 0.01,
    class_weight: Float[Tensor, " L"] | None = None,
) -> Float[Tensor, ""]:
    """Cross-entropy − c · entropy of the raw scores."""
    return F.cross_entropy(logits, label, weight=class_weight) - entropy_coefficient * score_entropy(raw_scores)
