"""Levels whose order counts: 0, 1/3, 2/3, 1. For each step between two levels, whether the image is above it.

    P(above step j) = σ(logit_j),    loss = Σ_j binary cross-entropy,    answer: as many steps as it is rather above

The answer is the median of the levels' probabilities: a model that hesitates between 0 and 1 says what lies between.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from saccade.tasks.task import Said, Tempered, in_turn


@dataclass(frozen=True)
class Ordinal(Tempered):
    """An image is of one of the levels `classes`, the lowest first."""

    name: ClassVar = "ordinal"
    best_by: ClassVar = "kappa"

    @property
    def outputs(self) -> int:
        """A logit for each step between two levels."""
        return len(self.classes) - 1

    def target(self, label: str) -> int:
        """The level's number."""
        return self.classes.index(label)

    def losses(self, logits: Float[Tensor, "*#shape J"], target: Int[Tensor, "*#shape"]) -> Float[Tensor, "*shape J"]:
        """Binary cross-entropy of each step."""
        above = self._above(target).to(logits)
        return F.binary_cross_entropy_with_logits(*torch.broadcast_tensors(logits, above), reduction="none")

    def _above(self, target: Int[Tensor, "*shape"]) -> Tensor:
        return target[..., None] > torch.arange(self.outputs, device=target.device)

    def weigh(self, target: Int[Tensor, "*shape"], class_weight: Tensor | None) -> Float[Tensor, "*shape J"] | None:
        """The weight of its level, for every step."""
        return None if class_weight is None else class_weight[target][..., None].expand(*target.shape, self.outputs)

    def class_weight(self, target: Int[Tensor, " n"]) -> Float[Tensor, " levels"]:
        """1 / (levels · frequency)."""
        counts = target.bincount(minlength=len(self.classes)).float()
        return counts.sum() / (len(counts) * counts.clamp(min=1))

    def deal(self, target: Int[Tensor, " n"]) -> list[list[int]]:
        """Level by level."""
        return in_turn([torch.nonzero(target == number).flatten().tolist() for number in range(len(self.classes))])

    def tell(self, logits: Float[Tensor, "*shape J"]) -> Float[Tensor, "*shape levels"]:
        """The probability of each level; a step cannot be passed more likely than the one below it."""
        above = self.temper(logits).sigmoid().cummin(dim=-1).values
        return F.pad(above, (1, 0), value=1.0) - F.pad(above, (0, 1), value=0.0)

    def say(self, told: Float[Tensor, " levels"]) -> Said:
        """The median level."""
        level = int((told.cumsum(dim=-1)[:-1] < 0.5).sum())
        return Said(self.classes[level], float(told[level]), (self.classes[level],), float(self.classes[level]))

    def _levels(self, logits: Float[Tensor, "*shape J"]) -> Int[Tensor, "*shape"]:
        return (logits.cummin(dim=-1).values > 0).sum(dim=-1)

    def right(self, logits: Float[Tensor, "B J"], target: Int[Tensor, " B"]) -> Float[Tensor, " B"]:
        """Whether it is the very level."""
        return (self._levels(logits) == target).float()

    def measure(
        self, logits: Float[Tensor, "n J"], target: Int[Tensor, " n"], positive: int | None = None
    ) -> Mapping[str, float | Tensor]:
        """Accuracies, Cohen's kappa with quadratic weights of the levels' distance, and the mean absolute error."""
        from torchmetrics.functional import classification as metrics  # a second that no prediction waits for

        said, levels, present = self._levels(logits), len(self.classes), target.unique()
        value = torch.tensor([float(name) for name in self.classes], dtype=torch.float64)
        recall = metrics.multiclass_accuracy(said, target, levels, average=None)
        return {
            "loss": self.loss(self.temper(logits), target),
            "accuracy": (said == target).float().mean(),
            "balanced_accuracy": recall[present].mean(),
            "kappa": quadratic_kappa(said, target, levels),
            "mean_absolute_error": (value[said] - value[target]).abs().mean(),
            "calibration_error": metrics.multiclass_calibration_error(self.tell(logits.double()), target, levels),
        }

    def prior_loss(self, target: Int[Tensor, " n"]) -> float:
        """The entropies of the steps."""
        above = self._above(target).float().mean(dim=0)
        return float((torch.special.entr(above) + torch.special.entr(1 - above)).sum())

    def logit_of(self, name: str) -> None:
        """None: what speaks for a middle level is no single logit."""


def quadratic_kappa(said: Int[Tensor, " n"], target: Int[Tensor, " n"], levels: int) -> float:
    """Agreement beyond chance, a mistake weighing the square of its distance (Cohen); NaN where all is of one level.

    >>> round(quadratic_kappa(torch.tensor([0, 1, 2, 2]), torch.tensor([0, 1, 2, 1]), 3), 3)
    0.8
    """
    if len(torch.cat([said, target]).unique()) < 2:
        return torch.nan
    from torchmetrics.functional.classification import multiclass_cohen_kappa

    return float(multiclass_cohen_kappa(said, target, levels, weights="quadratic"))
