"""Predictions → numbers, by torchmetrics; and how far a share can be trusted."""

import math

import torch
from scipy.stats import binomtest
from torch import Tensor
from torchmetrics.functional.classification import (
    multiclass_accuracy,
    multiclass_auroc,
    multiclass_average_precision,
    multiclass_calibration_error,
    multiclass_f1_score,
)

from saccade.evaluation.predictions import Predictions


def measure(predictions: Predictions, *, positive: int | None = None) -> dict[str, float]:
    """Loss, accuracies, average precision, and where the model looked; numbers that do not apply are left out.

    balanced_accuracy and f1 are means over the classes that have an image: of how many of the class are right, and of
    F1. average_precision and auroc are the areas under precision against recall and under the ROC curve of the class
    `positive` against the rest; without one, means over the classes that have an image. calibration_error is the
    expected one over 15 bins of confidence.
    """
    logits, label = predictions.logits, predictions.label
    present = label.unique()
    num_classes = logits.shape[1]
    recall = multiclass_accuracy(logits, label, num_classes, average=None)
    f1 = multiclass_f1_score(logits, label, num_classes, average=None)
    # In double: answers that are sure would all have the same probability, 1, and no order any more.
    shares = logits.double().softmax(dim=1)
    precision = multiclass_average_precision(shares, label, num_classes, average=None)
    told = present if positive is None else present[present == positive]
    values = {
        "loss": torch.nn.functional.cross_entropy(logits, label),
        "accuracy": (logits.argmax(dim=1) == label).float().mean(),
        "balanced_accuracy": recall[present].mean(),
        "f1": f1[present].mean(),
        "average_precision": precision[told].mean(),
        "auroc": _auroc(shares, label, present, told),
        "calibration_error": multiclass_calibration_error(shares, label, num_classes),
        "hit_rate": predictions.hit.nanmean(),
        "overlap": predictions.overlap.nanmean(),
        "mutual_overlap": predictions.mutual_overlap.nanmean(),
        "entropy": predictions.entropy.nanmean(),
    }
    may_lack = {
        "average_precision",
        "auroc",
        "hit_rate",
        "overlap",
        "mutual_overlap",
        "entropy",
    }  # a loss that is not a number is told
    return {name: float(value) for name, value in values.items() if not (name in may_lack and math.isnan(value))}


def _auroc(shares: Tensor, label: Tensor, present: Tensor, told: Tensor) -> Tensor:
    """NaN where all images are of one class: there is nothing to tell apart."""
    if len(present) < 2:
        return torch.tensor(torch.nan)
    return multiclass_auroc(shares, label, shares.shape[1], average=None)[told].mean()


def wilson_interval(right: int, count: int) -> tuple[float, float]:
    """The share of right answers a model may really have, given `right` of `count` (Wilson, 95%).

    >>> [round(end, 3) for end in wilson_interval(98, 100)]
    [0.93, 0.994]
    """
    low, high = binomtest(right, count).proportion_ci(method="wilson")
    return float(low), float(high)
