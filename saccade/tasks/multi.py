"""Several labels: an image has any of them, each on its own. Sigmoid and binary cross-entropy for each.

The loss of an image is the sum over labels, −log p(all of its labels): a label's part in it, beside a penalty on
weights, does not depend on how many others there are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from saccade.tasks.labels import join_labels, split_labels
from saccade.tasks.task import Said, Tempered, in_turn


@dataclass(frozen=True)
class Multi(Tempered):
    """An image has any of the labels `classes`."""

    name: ClassVar = "multi"
    best_by: ClassVar = "auroc"
    has_areas: ClassVar = True
    names_several: ClassVar = True

    def target(self, label: str) -> tuple[float, ...]:
        """1 for each label it has."""
        names = set(split_labels(label))
        return tuple(float(name in names) for name in self.classes)

    def losses(
        self, logits: Float[Tensor, "*#shape L"], target: Float[Tensor, "*#shape L"]
    ) -> Float[Tensor, "*shape L"]:
        """Binary cross-entropy of each label."""
        logits, target = torch.broadcast_tensors(logits, target.to(logits))
        return F.binary_cross_entropy_with_logits(logits, target, reduction="none")

    def weigh(self, target: Float[Tensor, "*shape L"], class_weight: Tensor | None) -> Tensor | None:
        """That of a label that is there, or is not."""
        return None if class_weight is None else torch.where(target > 0.5, class_weight[1], class_weight[0])

    def class_weight(self, target: Float[Tensor, "n L"]) -> Float[Tensor, "2 L"]:
        """n / (2 · count): of each label, images without and with it weigh the same as a whole."""
        having = target.sum(dim=0)
        counts = torch.stack([len(target) - having, having])
        return len(target) / (2 * counts.clamp(min=1))

    def deal(self, target: Float[Tensor, "n L"]) -> list[list[int]]:
        """Label by label, those that have it; and those that have none."""
        having = [torch.nonzero(column > 0.5).flatten().tolist() for column in target.unbind(dim=1)]
        return in_turn([*having, torch.nonzero(target.sum(dim=1) == 0).flatten().tolist()])

    def tell(self, logits: Float[Tensor, "*shape L"]) -> Float[Tensor, "*shape L"]:
        """Sigmoid."""
        return self.temper(logits).sigmoid()

    def say(self, told: Float[Tensor, " L"]) -> Said:
        """Labels with more than a half; as sure as of the least sure of all of them."""
        shares = told.tolist()
        names = tuple(name for name, share in zip(self.classes, shares, strict=True) if share > 0.5)
        return Said(join_labels(names), min(max(share, 1 - share) for share in shares), names)

    def right(self, logits: Float[Tensor, "B L"], target: Float[Tensor, "B L"]) -> Float[Tensor, " B"]:
        """The share of labels that are told right."""
        return ((logits > 0) == (target > 0.5)).float().mean(dim=1)

    def measure(
        self, logits: Float[Tensor, "n L"], target: Float[Tensor, "n L"], positive: int | None = None
    ) -> Mapping[str, float | Tensor]:
        """Means over labels that some images have and others have not; each label's own areas under curves and F1.

        accuracy is the share of labels told right, exact_match that of images with all of them right.
        """
        from torchmetrics.functional import classification as metrics  # a second that no prediction waits for

        logits = self.temper(logits)
        truth, said, shares = (target > 0.5).long(), (logits > 0).long(), logits.double().sigmoid()
        both = ((truth.sum(dim=0) > 0) & (truth.sum(dim=0) < len(truth))).nonzero().flatten()
        hits, wrong = (truth & said).sum(dim=0), (truth ^ said).sum(dim=0)
        f1 = 2 * hits / (2 * hits + wrong).clamp(min=1)
        recall = hits / truth.sum(dim=0).clamp(min=1)
        refusal = ((1 - truth) & (1 - said)).sum(dim=0) / (1 - truth).sum(dim=0).clamp(min=1)
        areas = {"average_precision": metrics.binary_average_precision, "auroc": metrics.binary_auroc}
        areas = {name: _by_label(area, shares, truth, both) for name, area in areas.items()} | {"f1": f1}
        told = both if positive is None else both[both == positive]
        return {
            "loss": self.loss(logits, target),
            "accuracy": (truth == said).float().mean(),
            "exact_match": (truth == said).all(dim=1).float().mean(),
            "balanced_accuracy": ((recall + refusal) / 2)[both].mean(),
            **{name: values[told if name != "f1" else both].mean() for name, values in areas.items()},
            "calibration_error": metrics.binary_calibration_error(shares.flatten(), truth.flatten(), n_bins=15),
            **{f"{name}:{self.classes[place]}": values[place] for place in both for name, values in areas.items()},
        }

    def prior_loss(self, target: Float[Tensor, "n L"]) -> float:
        """The entropies of the labels."""
        having = target.mean(dim=0)
        return float((torch.special.entr(having) + torch.special.entr(1 - having)).sum())

    def logit_of(self, name: str) -> int:
        """The label's own."""
        return self.classes.index(name)


def _by_label(
    area: Callable[[Tensor, Tensor], Tensor], shares: Float[Tensor, "n L"], truth: Int[Tensor, "n L"], both: Tensor
) -> Float[Tensor, " L"]:
    """The area of each label that some images have and others have not; NaN of the others."""
    found = torch.full((shares.shape[1],), torch.nan, dtype=shares.dtype)
    for place in both.tolist():
        found[place] = area(shares[:, place], truth[:, place])
    return found
