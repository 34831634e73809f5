"""A number: squared error in units of the training labels' standard deviation.

    value = mean + std · logit,    loss = (value − label)² / 2 std²

That is −log of a normal density of deviation `std`, but for a constant: patches' answers mix as in any other task.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.tasks.labels import STRATA
from saccade.tasks.task import Said, Task, in_turn


@dataclass(frozen=True)
class Regression(Task):
    """A number of this mean and standard deviation among the training images."""

    classes: tuple[str, ...] = ()
    mean: float = 0.0
    std: float = 1.0
    name: ClassVar = "regression"
    best_by: ClassVar = "mean_absolute_error"

    @property
    def outputs(self) -> int:
        """One."""
        return 1

    def target(self, label: str) -> float:
        """The number."""
        return float(label)

    def losses(self, logits: Float[Tensor, "*#shape 1"], target: Float[Tensor, "*#shape"]) -> Float[Tensor, "*shape 1"]:
        """Half of the squared error."""
        return (logits - self._standardize(target)[..., None].to(logits)).square() / 2

    def _standardize(self, target: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return (target - self.mean) / self.std

    def weigh(self, target: Float[Tensor, "*shape"], class_weight: Tensor | None) -> None:
        """Every image counts alike."""

    def class_weight(self, target: Float[Tensor, " n"]) -> None:
        """None: numbers are of no class."""

    def deal(self, target: Float[Tensor, " n"]) -> list[list[int]]:
        """Fifth by fifth of the numbers, in ascending order."""
        return in_turn([part.tolist() for part in target.argsort().tensor_split(STRATA)])

    def tell(self, logits: Float[Tensor, "*shape 1"]) -> Float[Tensor, "*shape 1"]:
        """The number."""
        return self.mean + self.std * logits

    def shares(self, told: Float[Tensor, "*shape 1"]) -> Float[Tensor, "*shape 0"]:
        """A number has none."""
        return told[..., :0]

    def say(self, told: Float[Tensor, "1"]) -> Said:
        """The number with four digits."""
        return Said(f"{float(told):.4g}", torch.nan, (), float(told))

    def right(self, logits: Float[Tensor, "B 1"], target: Float[Tensor, " B"]) -> None:
        """A number is more or less right, never quite."""

    def measure(
        self, logits: Float[Tensor, "n 1"], target: Float[Tensor, " n"], positive: int | None = None
    ) -> Mapping[str, float | Tensor]:
        """Errors in the labels' unit; r2 is the share of the labels' variance that is explained."""
        error, target = self.tell(logits.double())[:, 0] - target.double(), target.double()
        variance = (target - target.mean()).square().mean()
        return {
            "loss": self.loss(logits, target.float()),
            "mean_absolute_error": error.abs().mean(),
            "root_mean_squared_error": error.square().mean().sqrt(),
            "r2": 1 - error.square().mean() / variance if variance > 0 else torch.nan,
        }

    def prior_loss(self, target: Float[Tensor, " n"]) -> float:
        """Half of the variance."""
        return float(self._standardize(target).var(unbiased=False) / 2)

    def logit_of(self, name: str) -> None:
        """A number has no names."""
