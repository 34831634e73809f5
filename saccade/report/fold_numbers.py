"""Runs in folds → their numbers: of each fold, mean ± s.d. over folds, and of all images together with intervals.

Together, every image is answered by the model that had not seen its fold. Scores of different models are then ranked
against each other: average precision and AUROC of all together are often a little lower than the mean over folds.
"""

import math
import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from saccade.report.numbers import headline, percent, show_both, show_number
from saccade.report.task_numbers import Number
from saccade.runs import FoldFolder
from saccade.runs.fold_folder import OutOfFold
from saccade.runs.prediction_tables import PredictionTable
from saccade.runs.run_contents import MEAN_OVER_CLASSES

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table


class FoldNumbers(NamedTuple):
    """The numbers of some of the images.

    folds:    a share by name, of each fold that has such images.
    together: of all of them.
    """

    images: int
    folds: dict[str, dict[str, float]]
    together: list[Number]

    def spread(self, name: str) -> tuple[float, float]:
        """Mean and standard deviation (of the sample) of a number over the folds that have it."""
        values = [numbers[name] for numbers in self.folds.values() if name in numbers]
        return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else float("nan")

    def rows(self) -> list[tuple[str, ...]]:
        """For people: a number in each row, then each fold, mean ± s.d., and all images with the interval."""
        return [
            (
                number.name,
                *(show_number(number, fold.get(number.name, math.nan)) for fold in self.folds.values()),
                show_spread(*self.spread(number.name), plain=number.plain),
                show_both(number),
            )
            for number in self.together
        ]

    @property
    def columns(self) -> tuple[str, ...]:
        """The head of these rows."""
        return ("", *(f"fold {name}" for name in self.folds), "mean ± s.d.", f"all {self.images:,} images (95%)")

    def tree(self) -> dict[str, Any]:
        """For programs."""
        spreads = {number.name: self.spread(number.name) for number in self.together}
        return {
            "images": self.images,
            "folds": self.folds,
            "mean": {name: mean for name, (mean, _) in spreads.items()},
            "deviation": {name: deviation for name, (_, deviation) in spreads.items()},
            "together": {number.name: list(number.estimate) for number in self.together},
        }


class FoldSummary(NamedTuple):
    """All images; and those whose pictures no other fold has, None if that is all of them."""

    positive: str | None
    everything: FoldNumbers
    without_repeated: FoldNumbers | None

    def tree(self) -> dict[str, Any]:
        """For programs."""
        tree = {"positive": self.positive or MEAN_OVER_CLASSES, **self.everything.tree()}
        return tree if self.without_repeated is None else {**tree, "without_repeated": self.without_repeated.tree()}


def show_spread(mean: float, deviation: float, *, plain: bool = False) -> str:
    """Mean ± s.d., in percent if they are no plain numbers.

    >>> show_spread(0.97, 0.0312)
    '97.0 ± 3.1%'
    """
    return f"{mean:.3g} ± {deviation:.2g}" if plain else f"{100 * mean:.1f} ± {100 * deviation:.1f}%"


def sum_up(folds: FoldFolder) -> FoldSummary:
    """The numbers of finished folds."""
    found, positives = folds.out_of_fold(), {run.read().positive for run in folds.runs().values()}
    positive = positives.pop() if len(positives) == 1 else None
    names = tuple(folds.facts()["folds"])
    rest = found.where(lambda row: not row.repeated)
    some = None if len(rest.rows) == len(found.rows) else _count(rest, names, positive)
    return FoldSummary(positive, _count(found, names, positive), some)


def _count(found: OutOfFold, names: tuple[str, ...], positive: str | None) -> FoldNumbers:
    tables = {name: found.where(lambda row, name=name: row.fold == name).table for name in names}
    folds = {name: _values(table, positive) for name, table in tables.items() if table.rows}
    return FoldNumbers(len(found.rows), folds, headline(found.table, positive))


def _values(table: PredictionTable, positive: str | None) -> dict[str, float]:
    return {number.name: number.estimate.value for number in headline(table, positive)}


def folds_tables(summary: FoldSummary) -> "Group":
    """The numbers for a terminal; once more without pictures that lie in several folds, if there are any."""
    from rich.console import Group

    tables = [_table(summary.everything)]
    if summary.without_repeated is None:
        return Group(*tables)
    return Group(*tables, "\nwithout pictures that lie in several folds:", _table(summary.without_repeated))


def _table(numbers: FoldNumbers) -> "Table":
    from rich.table import Table

    table = Table(*numbers.columns, box=None, pad_edge=False)
    for row in numbers.rows():
        table.add_row(*row)
    return table


def spread_table(summaries: Mapping[str, Mapping[str, Any]]) -> "Table":
    """Evaluations of several models on the same images: each number's mean ± s.d. over the models."""
    from rich.table import Table

    from saccade.report.numbers import SHARES

    table = Table("", *(f"fold {name}" for name in summaries), "mean ± s.d.", box=None, pad_edge=False)
    for name in SHARES:
        values = [summary[name] for summary in summaries.values() if name in summary]
        if len(values) == len(summaries):
            deviation = statistics.stdev(values) if len(values) > 1 else float("nan")
            row = (*map(percent, values), show_spread(statistics.fmean(values), deviation))
            table.add_row(name.replace("_", " "), *row)
    return table
