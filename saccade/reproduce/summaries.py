"""Numbers of several runs → a center and a spread, and how a table says them.

The spread is that of the paper's tables: the standard deviation of the sample (n − 1), or the median absolute
deviation, median |x − median x|, without any factor.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

from saccade.reproduce.table_types import MEAN, MEDIAN, Measure


class Summary(NamedTuple):
    """A center and a spread; NaN where there are too few numbers."""

    center: float
    spread: float


def mean_and_deviation(values: Sequence[float]) -> Summary:
    """The mean and the standard deviation of the sample.

    >>> mean_and_deviation([1.0, 3.0])
    Summary(center=2.0, spread=1.4142135623730951)
    """
    return Summary(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else math.nan)


def median_and_deviation(values: Sequence[float]) -> Summary:
    """The median and the median absolute deviation from it.

    >>> median_and_deviation([1.0, 2.0, 4.0, 9.0, 9.0])  # deviations 3 2 0 5 5
    Summary(center=4.0, spread=3.0)
    """
    center = statistics.median(values)
    spread = statistics.median([abs(value - center) for value in values]) if len(values) > 1 else math.nan
    return Summary(center, spread)


STATISTICS: dict[str, Callable[[Sequence[float]], Summary]] = {
    MEAN: mean_and_deviation,
    MEDIAN: median_and_deviation,
}


def show(values: Sequence[float], measure: Measure, statistic: str, *, runs: int) -> str:
    """Center and spread in words, and how many of the runs have a value if not all.

    >>> show([0.5, 0.7], Measure("ap", "AP", digits=2), "mean ± s.d.", runs=2)
    '0.60 ± 0.14'
    >>> show([200.0], Measure("steps", "steps", digits=0), "mean ± s.d.", runs=3)
    '200 (1 of 3)'
    >>> show([117.2, 117.2], Measure("cost", "cost", digits=0, fixed=True), "mean ± s.d.", runs=2)
    '117'
    """
    if not values:
        return "–"
    center, spread = STATISTICS[statistic](values)
    deviation = "" if measure.fixed or math.isnan(spread) else f" ± {spread:.{measure.digits}f}"
    some = "" if len(values) == runs else f" ({len(values)} of {runs})"
    return f"{center:,.{measure.digits}f}{deviation}{some}"
