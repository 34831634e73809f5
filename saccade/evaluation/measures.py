"""Predictions → numbers, by torchmetrics; and how far a share can be trusted."""

import math

import torch
from torchmetrics.functional.classification import multiclass_accuracy, multiclass_average_precision

from saccade.evaluation.predictions import Predictions


def measure(predictions: Predictions) -> dict[str, float]:
    """Loss, accuracies, average precision, and where the model looked; numbers that do not apply are left out.

    balanced_accuracy is the mean over classes of how many of the class are right; average_precision the mean over
    classes of the area under precision against recall. Classes without an image count in neither.
    """
    logits, label = predictions.logits, predictions.label
    present = label.unique()
    num_classes = logits.shape[1]
    recall = multiclass_accuracy(logits, label, num_classes, average=None)
    # In double: answers that are sure would all have the same probability, 1, and no order any more.
    precision = multiclass_average_precision(logits.double().softmax(dim=1), label, num_classes, average=None)
    values = {
        "loss": torch.nn.functional.cross_entropy(logits, label),
        "accuracy": (logits.argmax(dim=1) == label).float().mean(),
        "balanced_accuracy": recall[present].mean(),
        "average_precision": precision[present].mean(),
        "hit_rate": predictions.hit.nanmean(),
        "overlap": predictions.overlap.nanmean(),
        "entropy": predictions.entropy.nanmean(),
    }
    may_lack = {"hit_rate", "overlap", "entropy"}  # a loss that is not a number is told
    return {name: float(value) for name, value in values.items() if not (name in may_lack and math.isnan(value))}


def wilson_interval(right: int, count: int, *, z: float = 1.96) -> tuple[float, float]:
    """The share of right answers a model may really have, given `right` of `count` (Wilson; 95% by default).

    >>> [round(end, 3) for end in wilson_interval(98, 100)]
    [0.93, 0.994]
    """
    if not 0 <= right <= count or count < 1:
        raise ValueError(f"{right} right answers of {count}: expected 0 ≤ right ≤ count and at least one answer")
    share, spread = right / count, z * z / count
    centre, half = share + spread / 2, z * math.sqrt(share * (1 - share) / count + spread / count / 4)
    # Rounding may carry the ends a hair outside.
    return max(0.0, (centre - half) / (1 + spread)), min(1.0, (centre + half) / (1 + spread))
