"""Numbers of rows → which row is above which: only where mean and median both say so, beyond their spreads."""

from collections.abc import Mapping, Sequence

from saccade.reproduce.summaries import STATISTICS

ENOUGH = 3  # runs of a row, for a spread that means something


def is_above(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether center − spread of one is above center + spread of the other, by both statistics.

    >>> is_above([91.0, 51.4, 86.1], [80.6, 81.6, 82.3])  # the median is, the mean is not
    False
    >>> is_above([99.1, 99.5, 99.8], [97.7, 97.7, 98.9])
    True
    """
    if min(len(one), len(other)) < ENOUGH:
        return False
    pairs = ((summary(one), summary(other)) for summary in STATISTICS.values())
    return all(high.center - high.spread > low.center + low.spread for high, low in pairs)


def tell_orders(rows: Mapping[str, Sequence[float]]) -> str:
    """A line for each row that is above others; rows in the same order.

    >>> print(tell_orders({"a": [9, 9, 9], "b": [5, 6, 7], "c": [1, 2, 1]}))
    - a is above b; c
    - b is above c
    """
    below = {name: [other for other in rows if is_above(rows[name], rows[other])] for name in rows}
    return "\n".join(f"- {name} is above {'; '.join(others)}" for name, others in below.items() if others)
