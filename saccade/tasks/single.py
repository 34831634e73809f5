"""One label: an image is of one class. Softmax, cross-entropy."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from saccade.tasks.labels import as_number
from saccade.tasks.ordinal import quadratic_kappa
from saccade.tasks.task import Health, Said, Tempered, in_turn


@dataclass(frozen=True)
class Single(Tempered):
    """An image is of one of the `classes`."""

    name: ClassVar = "single"
    best_by: ClassVar = "accuracy"
    has_areas: ClassVar = True
    counts_alike: ClassVar = True

    def target(self, label: str) -> int:
        """The class's number."""
        return self.classes.index(label)

    def losses(self, logits: Float[Tensor, "*#shape L"], target: Int[Tensor, "*#shape"]) -> Float[Tensor, "*shape 1"]:
        """−log softmax(logits)[target]."""
        return -logits.log_softmax(dim=-1).take_along_dim(target[..., None], dim=-1)

    def loss(
        self, logits: Float[Tensor, "B L"], target: Int[Tensor, " B"], class_weight: Tensor | None = None
    ) -> Float[Tensor, ""]:
        """Cross-entropy."""
        return F.cross_entropy(logits, target, weight=class_weight)

    def weigh(self, target: Int[Tensor, "*shape"], class_weight: Tensor | None) -> Float[Tensor, "*shape 1"] | None:
        """The weight of its class."""
        return None if class_weight is None else class_weight[target][..., None]

    def class_weight(self, target: Int[Tensor, " n"]) -> Float[Tensor, " L"]:
        """1 / (classes · frequency): every class weighs the same as a whole, and an image weighs 1 on average."""
        counts = target.bincount(minlength=self.outputs).float()
        return counts.sum() / (len(counts) * counts.clamp(min=1))

    def deal(self, target: Int[Tensor, " n"]) -> list[list[int]]:
        """Class by class."""
        return in_turn([torch.nonzero(target == number).flatten().tolist() for number in range(self.outputs)])

    def tell(self, logits: Float[Tensor, "*shape L"]) -> Float[Tensor, "*shape L"]:
        """Softmax."""
        return self.temper(logits).softmax(dim=-1)

    def say(self, told: Float[Tensor, " L"]) -> Said:
        """The class with the largest share."""
        best = int(told.argmax())
        return Said(self.classes[best], float(told[best]), (self.classes[best],))

    def surest(self, told: Float[Tensor, "models L"], mean: Float[Tensor, " L"]) -> int:
        """The one that is surest of what all of them say."""
        return int(told[:, mean.argmax()].argmax())

    def right(self, logits: Float[Tensor, "B L"], target: Int[Tensor, " B"]) -> Float[Tensor, " B"]:
        """Whether the largest logit is that of the class."""
        return (logits.argmax(dim=1) == target).float()

    def measure(
        self, logits: Float[Tensor, "n L"], target: Int[Tensor, " n"], positive: int | None = None
    ) -> Mapping[str, float | Tensor]:
        """Accuracies, areas under curves, calibration.

        balanced_accuracy and f1 are means over the classes that have an image: of how many of the class are right, and
        of F1. average_precision and auroc are the areas under precision against recall and under the ROC curve of the
        class `positive` against the rest; without one, means over the classes that have an image. calibration_error is
        the expected one over 15 bins of confidence. Classes that are numbers, and not all whole ones, which may be
        names, have the kappa of levels, too.
        """
        from torchmetrics.functional import classification as metrics  # a second that no prediction waits for

        logits, present = self.temper(logits), target.unique()
        recall = metrics.multiclass_accuracy(logits, target, self.outputs, average=None)
        f1 = metrics.multiclass_f1_score(logits, target, self.outputs, average=None)
        # In double: answers that are sure would all have the same probability, 1, and no order any more.
        shares = logits.double().softmax(dim=1)
        precision = metrics.multiclass_average_precision(shares, target, self.outputs, average=None)
        told = present if positive is None else present[present == positive]
        return {
            "loss": F.cross_entropy(logits, target),
            "accuracy": (logits.argmax(dim=1) == target).float().mean(),
            "balanced_accuracy": recall[present].mean(),
            "f1": f1[present].mean(),
            "average_precision": precision[told].mean(),
            "auroc": _auroc(shares, target, present, told),
            "calibration_error": metrics.multiclass_calibration_error(shares, target, self.outputs),
            **self._kappa(logits.argmax(dim=1), target),
        }

    def _kappa(self, said: Int[Tensor, " n"], target: Int[Tensor, " n"]) -> dict[str, float]:
        numbers = [number for name in self.classes if (number := as_number(name)) is not None]
        if len(numbers) < self.outputs or all(number.is_integer() for number in numbers):
            return {}
        level = torch.tensor(numbers).argsort().argsort().to(target)
        return {"kappa": quadratic_kappa(level[said], level[target], self.outputs)}

    def prior_loss(self, target: Int[Tensor, " n"]) -> float:
        """The entropy of the classes."""
        count = target.bincount(minlength=self.outputs).float()
        return float(torch.special.entr(count / count.sum()).sum())

    def health(self, logits: Float[Tensor, "n L"], target: Int[Tensor, " n"]) -> Health:
        """Skill is balanced accuracy from guessing (0) to all right (1)."""
        said = logits.argmax(dim=1)
        favorite = int(said.bincount(minlength=self.outputs).argmax())
        count = target.bincount(minlength=self.outputs).float()
        recall = target[said == target].bincount(minlength=self.outputs)[count > 0] / count[count > 0]
        guess = torch.tensor(1 / len(recall))  # with images of one class only, skill is 0 / 0
        return Health(
            favorite=self.classes[favorite],
            favorite_share=float((said == favorite).float().mean()),
            skill=float((recall.mean() - guess) / (1 - guess)),
            luck=2 * float((guess / (1 - guess) / len(target)).sqrt()),
            loss=F.cross_entropy(logits, target),
            prior_loss=self.prior_loss(target),
        )

    def logit_of(self, name: str) -> int:
        """The class's own."""
        return self.classes.index(name)


def _auroc(shares: Tensor, label: Tensor, present: Tensor, told: Tensor) -> Tensor:
    """NaN where all images are of one class: there is nothing to tell apart."""
    from torchmetrics.functional import classification as metrics

    if len(present) < 2:
        return torch.tensor(torch.nan)
    return metrics.multiclass_auroc(shares, label, shares.shape[1], average=None)[told].mean()
