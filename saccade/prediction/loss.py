"""logits, labels, raw scores → loss: cross-entropy minus an entropy bonus.

L = CE(logits, label) − c · H(softmax(raw scores)). Maximizing the entropy keeps the scorer from being sure of the
wrong patches early in training; the paper has c = 0.01, and 0.05 for CUB.

Ours beside it, where one patch is enough to answer (a sign, a defect): the image as a mixture of its patches,

    p(label) = Σ_k π_k p(label | patch k),    π = softmax of the slots' raw scores.

The gradient of −log p(label) to a score is π_k − r_k, with r_k ∝ π_k p(label | patch k) the share of patch k in the
answer: a score rises if its patch explains the label better than the others do. It is told so patch by patch, which
teaches a scorer many times faster than the gradient through blended patches (docs/experiments.md). Where all patches
answer alike, as in an image without evidence, nothing is pushed.

An answer may have several parts, each of several labels for instance, which different patches may explain: each part is
a mixture of its own, and −log p is the sum over them (`mixture_of_answers`).
"""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from saccade.tasks.task import weighted


def score_entropy(raw_scores: Float[Tensor, "B N"]) -> Float[Tensor, ""]:
    """H = −Σ p log p in nats with p the softmax of the scores before normalization; the mean over the batch.

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


def mixture_loss(
    slot_logits: Float[Tensor, "B K L"],
    slot_scores: Float[Tensor, "B K"],
    label: Int[Tensor, " B"],
    *,
    class_weight: Float[Tensor, " L"] | None = None,
) -> Float[Tensor, ""]:
    """−log Σ_k softmax(slot_scores)_k · softmax(slot_logits_k)[label], the mean over the batch weighted by class.

    >>> import torch
    >>> sure, unsure = [9.0, -9.0], [0.0, 0.0]
    >>> mixture_loss(torch.tensor([[sure, unsure]]), torch.tensor([[9.0, -9.0]]), torch.tensor([0])).exp()
    tensor(1.)
    """
    losses = -slot_logits.log_softmax(dim=2).take_along_dim(label[:, None, None], dim=2)  # B K 1
    return mixture_of_answers(losses, slot_scores, None if class_weight is None else class_weight[label][:, None])


def mixture_of_answers(
    losses: Float[Tensor, "B K parts"],
    slot_scores: Float[Tensor, "B K"],
    weight: Float[Tensor, "B parts"] | None = None,
) -> Float[Tensor, ""]:
    """The same for losses −log p of each slot and part: −log Σ_k softmax(slot_scores)_k · p_k, added up over parts.

    weight: what each part of an image counts in the mean over the batch.
    """
    return weighted(-(slot_scores.log_softmax(dim=1)[..., None] - losses).logsumexp(dim=1), weight)
