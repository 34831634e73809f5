"""How far a number can be trusted: 95% intervals for the numbers of a report that are not one plain share.

balanced accuracy   The mean of shares p_c, one per class. Each has its Wilson interval [l_c, u_c]; that of their mean
                    is [mean − √Σ(p_c − l_c)² / L, mean + √Σ(u_c − p_c)² / L] (Zou and Donner, recovered variances).
                    It does not shrink to nothing when all answers are right, as a bootstrap does.
average precision,
AUROC               A bootstrap: images are drawn again within each class, the middle 95% of the results are kept.
of several labels   likewise, without classes.
a mean              likewise, without classes.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.stats import bootstrap

from saccade.evaluation import wilson_interval

DRAWS = 1000
# Scores sorted and summed per bootstrap of the average precision: a few seconds for 200 classes.
_BUDGET = 10**8


class Estimate(NamedTuple):
    """A number and the ends of its 95% interval; the ends are NaN where none can be given."""

    value: float
    low: float = math.nan
    high: float = math.nan


def share(right: Bool[np.ndarray, " n"]) -> Estimate:
    """How many are right."""
    return Estimate(float(right.mean()), *wilson_interval(int(right.sum()), len(right)))


def mean_of_shares(right: Bool[np.ndarray, " n"], label: Int[np.ndarray, " n"]) -> Estimate:
    """How many are right in the mean over classes: balanced accuracy.

    >>> mean_of_shares(np.array([True] * 98 + [False] * 2), np.zeros(100, int)) == share(np.arange(100) < 98)
    True
    """
    classes = [share(right[label == number]) for number in np.unique(label)]
    value = math.fsum(one.value for one in classes) / len(classes)
    below = math.hypot(*(one.value - one.low for one in classes)) / len(classes)
    above = math.hypot(*(one.high - one.value for one in classes)) / len(classes)
    return Estimate(value, value - below, value + above)


def mean(values: Float[np.ndarray, " n"], *, seed: int = 0) -> Estimate:
    """The mean of values in [0, 1]; if all are 0 or 1 it is a share."""
    if np.isin(values, (0, 1)).all():
        return share(values == 1)
    drawn = bootstrap((values,), np.mean, n_resamples=DRAWS, batch=100, method="percentile", rng=seed)
    return Estimate(float(values.mean()), *map(float, drawn.confidence_interval))


def average_precision(
    probability: Float[np.ndarray, "n L"], label: Int[np.ndarray, " n"], *, positive: int | None = None, seed: int = 0
) -> Estimate:
    """Area under precision against recall of the class `positive`, or in the mean over the classes that have images.

    Nothing can be said of the interval if it is perfect: every bootstrap is perfect too.
    """
    return _bootstrap(_areas, probability, label, positive, seed)


def auroc(
    probability: Float[np.ndarray, "n L"], label: Int[np.ndarray, " n"], *, positive: int | None = None, seed: int = 0
) -> Estimate:
    """Area under the ROC curve of the class `positive`, or in the mean over the classes that have images."""
    return _bootstrap(_roc_areas, probability, label, positive, seed)


def mean_areas(
    share: Float[np.ndarray, "n L"], there: Bool[np.ndarray, "n L"], *, seed: int = 0
) -> tuple[Estimate, Estimate]:
    """Areas under the ROC curve and under precision against recall, in the mean over labels that some images have and
    others have not. Images are drawn again as they are: no draw can keep the number of every label.
    """
    draws = int(np.clip(_BUDGET // max(share.size, 1), 200, DRAWS))
    drawn = np.random.default_rng(seed).multinomial(len(there), np.full(len(there), 1 / len(there)), size=draws)
    times = np.concatenate([np.ones((1, len(there))), drawn])
    both = [place for place in range(there.shape[1]) if 0 < there[:, place].sum() < len(there)]
    return _mean_area(_roc_areas, share, there, times, both), _mean_area(_areas, share, there, times, both)


def _mean_area(
    area: Callable[..., Float[np.ndarray, " draws"]],
    share: Float[np.ndarray, "n L"],
    there: Bool[np.ndarray, "n L"],
    times: Float[np.ndarray, "draws n"],
    places: Sequence[int],
) -> Estimate:
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a draw may lack a label altogether
        value, *drawn = np.nanmean([area(share[:, place], there[:, place], times) for place in places], axis=0)
    return Estimate(float(value), *(map(float, np.nanquantile(drawn, (0.025, 0.975))) if value < 1 else ()))


def _bootstrap(
    area: Callable[..., Float[np.ndarray, " draws"]],
    probability: Float[np.ndarray, "n L"],
    label: Int[np.ndarray, " n"],
    positive: int | None,
    seed: int,
) -> Estimate:
    draws = int(np.clip(_BUDGET // probability.size, 200, DRAWS))
    times = np.concatenate([np.ones((1, len(label))), _draw_within_classes(label, draws, seed)])  # 1+draws n
    classes = np.unique(label) if positive is None else [positive]
    areas = [area(probability[:, number], label == number, times) for number in classes]
    value, *drawn = np.mean(areas, axis=0)
    return Estimate(float(value), *(map(float, np.quantile(drawn, (0.025, 0.975))) if value < 1 else ()))


def _draw_within_classes(label: Int[np.ndarray, " n"], draws: int, seed: int) -> Float[np.ndarray, "draws n"]:
    """How many times each image is drawn, if every class keeps its number of images."""
    rng = np.random.default_rng(seed)
    times = np.zeros((draws, len(label)))
    for number in np.unique(label):
        members = np.flatnonzero(label == number)
        times[:, members] = rng.multinomial(len(members), np.full(len(members), 1 / len(members)), size=draws)
    return times


def _areas(
    score: Float[np.ndarray, " n"], positive: Bool[np.ndarray, " n"], times: Float[np.ndarray, "draws n"]
) -> Float[np.ndarray, " draws"]:
    """Average precision where image i counts `times[:, i]` times; equal scores are one threshold."""
    order = np.argsort(-score, kind="stable")
    last = np.append(np.flatnonzero(np.diff(score[order])), len(score) - 1)  # of each run of equal scores
    above = times[:, order].cumsum(axis=1)[:, last]
    found = (times * positive)[:, order].cumsum(axis=1)[:, last]
    step = np.diff(found, axis=1, prepend=0)
    return (step * found / np.maximum(above, 1)).sum(axis=1) / found[:, -1]


def _roc_areas(
    score: Float[np.ndarray, " n"], positive: Bool[np.ndarray, " n"], times: Float[np.ndarray, "draws n"]
) -> Float[np.ndarray, " draws"]:
    """The share of pairs, one positive and one not, in which the positive has the higher score; equal ones are half."""
    value = np.unique(score, return_inverse=True)[1]
    found, others = (_sum_by(value, times * kind) for kind in (positive, ~positive))  # draws distinct
    below = others.cumsum(axis=1) - others
    return (found * (below + others / 2)).sum(axis=1) / (found.sum(axis=1) * others.sum(axis=1))


def _sum_by(value: Int[np.ndarray, " n"], times: Float[np.ndarray, "draws n"]) -> Float[np.ndarray, "draws distinct"]:
    order = np.argsort(value, kind="stable")
    first = np.flatnonzero(np.diff(value[order], prepend=-1))
    return np.add.reduceat(times[:, order], first, axis=1)
