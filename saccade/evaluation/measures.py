"""Predictions → numbers: those of the task, and where the model looked; and how far a share can be trusted."""

import math

from scipy.stats import binomtest

from saccade.evaluation.predictions import Predictions
from saccade.tasks.task import Task, make_task

ALWAYS = {"loss"}  # one that is not a number is told


def measure(predictions: Predictions, task: Task | None = None, *, positive: int | None = None) -> dict[str, float]:
    """The numbers of the task (`measure` of each in `saccade.tasks`), and where the model looked; numbers that do not
    apply are left out.

    task:     what labels mean (default: one class each).
    positive: the class whose areas under curves are told, where the task has such a thing.
    """
    task = task or make_task({"name": "single"}, (), predictions.logits.shape[1])
    values = {
        **task.measure(predictions.logits, predictions.label, positive),
        "hit_rate": predictions.hit.nanmean(),
        **{f"hit_rate:{name}": hits.nanmean() for name, hits in zip(task.classes, predictions.hits.T, strict=False)},
        "overlap": predictions.overlap.nanmean(),
        "mutual_overlap": predictions.mutual_overlap.nanmean(),
        "entropy": predictions.entropy.nanmean(),
    }
    return {name: float(value) for name, value in values.items() if name in ALWAYS or not math.isnan(value)}


def wilson_interval(right: int, count: int) -> tuple[float, float]:
    """The share of right answers a model may really have, given `right` of `count` (Wilson, 95%).

    >>> [round(end, 3) for end in wilson_interval(98, 100)]
    [0.93, 0.994]
    """
    low, high = binomtest(right, count).proportion_ci(method="wilson")
    return float(low), float(high)
