"""Scores and labels of images the model did not learn from → the threshold that does what was asked for, and its band.

Every cut between two neighboring scores is looked at, and the threshold lies halfway between these two. Of all cuts

    recall R      those that find at least R: fewest false alarms, then most found
    precision P   those of whose answers at least P are right: most found, then fewest false alarms
    cost          cost of missing · missed + cost of a false alarm · false alarms: least, then less of the costlier one
    F1            2 · found / (said + there): most

The band is where the thresholds lie that 95% of draws of the same images lead to: drawn again with replacement within
found and other images or, where images belong together, group by group.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.stats import chi2

from saccade.deciding import Threshold

DRAWS = 1000
ROUNDING = 1e-9

Counts = Float[np.ndarray, " cuts"]


class Cuts(NamedTuple):
    """What each cut finds, what it takes for the class without reason (`alarms`), and how many there are to find."""

    found: Counts
    alarms: Counts
    there: float

    @property
    def missed(self) -> Counts:
        """What each cut leaves out."""
        return self.there - self.found


class Aim(NamedTuple):
    """What is asked of a threshold: of the cuts that `allows` admits, the first in the order of `keys` is taken."""

    asked: str
    keys: Callable[[Cuts], tuple[Counts, Counts]]
    allows: Callable[[Cuts], Bool[np.ndarray, " cuts"]] = lambda cuts: np.ones(len(cuts.found), bool)


def recall(wanted: float) -> Aim:
    """Find at least this share of a class."""
    return Aim(
        f"recall {wanted:g}",
        lambda cuts: (cuts.alarms, cuts.missed),
        lambda cuts: cuts.found >= wanted * cuts.there - ROUNDING,
    )


def precision(wanted: float) -> Aim:
    """At least this share of what is said to be of a class is."""
    return Aim(
        f"precision {wanted:g}",
        lambda cuts: (cuts.missed, cuts.alarms),
        lambda cuts: (cuts.found > 0) & (cuts.found >= wanted * (cuts.found + cuts.alarms) - ROUNDING),
    )


def cost(missing: float, alarm: float = 1.0) -> Aim:
    """Make what mistakes cost as little as possible."""
    return Aim(
        f"cost {missing:g} of missing and {alarm:g} of a false alarm",
        lambda cuts: (missing * cuts.missed + alarm * cuts.alarms, cuts.missed if missing >= alarm else cuts.alarms),
    )


def f1() -> Aim:
    """Make F1 as large as possible."""
    return Aim("F1", lambda cuts: (-2 * cuts.found / (cuts.found + cuts.alarms + cuts.there).clip(1), cuts.missed))


def choose_threshold(
    share: Float[np.ndarray, " n"],
    there: Bool[np.ndarray, " n"],
    aim: Aim,
    *,
    groups: Sequence[str] | None = None,
    seed: int = 0,
) -> Threshold | None:
    """The threshold for an aim; None if no cut can reach it.

    groups: of each image, where some belong together.

    >>> share, there = np.array([0.9, 0.8, 0.4, 0.1]), np.array([True, True, False, False])
    >>> round(choose_threshold(share, there, recall(0.99)).at, 3)
    0.6
    """
    if not there.any():
        return None
    order = np.argsort(-share, kind="stable")
    share, there = share[order], there[order]
    together = None if groups is None else [str(groups[place]) for place in order]
    chosen = _cut(share, there, np.ones(len(share)), aim)
    if chosen is None:
        return None
    draws = (_cut(share, there, times, aim) for times in _draws(there, together, seed))
    found = [1.0 if drawn is None else drawn for drawn in draws]
    low, high = np.quantile(found, (0.025, 0.975)) if found else (chosen, chosen)
    return Threshold(chosen, min(float(low), chosen), max(float(high), chosen))


def _cut(
    share: Float[np.ndarray, " n"], there: Bool[np.ndarray, " n"], times: Float[np.ndarray, " n"], aim: Aim
) -> float | None:
    """The threshold, where image i counts `times[i]` times; scores come in descending order."""
    drawn = times > 0
    share, there, times = share[drawn], there[drawn], times[drawn]
    last = np.append(np.flatnonzero(np.diff(share)), len(share) - 1)  # of each run of equal scores
    found, said = ((kind * times).cumsum()[last] for kind in (there, np.ones(len(there))))
    cuts = Cuts(np.append(0.0, found), np.append(0.0, said - found), float((there * times).sum()))
    allowed = np.flatnonzero(aim.allows(cuts))
    if not len(allowed):
        return None
    first, second = (key[allowed] for key in aim.keys(cuts))
    best = allowed[np.lexsort((second, first))[0]]
    ends = np.concatenate([[1.0], share[last], [0.0]])
    return float((ends[best] + ends[best + 1]) / 2)


def _draws(there: Bool[np.ndarray, " n"], groups: Sequence[str] | None, seed: int) -> list[Float[np.ndarray, " n"]]:
    """How often each image is drawn, in each draw that has any of the class."""
    rng = np.random.default_rng(seed)
    if groups is None or len(set(groups)) == len(groups):
        times = np.zeros((DRAWS, len(there)))
        for kind in (there, ~there):
            members = np.flatnonzero(kind)
            if len(members):
                times[:, members] = rng.multinomial(len(members), np.full(len(members), 1 / len(members)), size=DRAWS)
        return list(times)
    names, place = np.unique(np.array(groups), return_inverse=True)
    times = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=DRAWS)[:, place].astype(float)
    return [row for row in times if (row * there).any()]


def images_needed(wanted: float) -> int:
    """How many of a class must be there, all of them found, for the 95% interval (Wilson) of the recall to begin at
    `wanted`: n / (n + 1.96²) ≥ wanted.

    >>> images_needed(0.9)
    35
    """
    return math.ceil(wanted * float(chi2.ppf(0.95, df=1)) / (1 - wanted)) if wanted < 1 else 0
