"""Decisions → their numbers, each with its interval; and how far probabilities can be believed."""

from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.deciding import Costs, DecisionRule, Thresholds, make_rule
from saccade.evaluation.decided import Decisions, decide_all
from saccade.report import intervals
from saccade.report.intervals import DRAWS, Estimate
from saccade.report.numbers import show_both
from saccade.report.task_numbers import Number
from saccade.runs.prediction_tables import PredictionTable

if TYPE_CHECKING:
    from rich.table import Table


def read_rule(summary: dict[str, Any], table: PredictionTable) -> DecisionRule | None:
    """The rule of the model that an evaluation is of; None if it had none."""
    return make_rule(summary.get("decision"), table.classes, several=table.task == "multi")


def decision_numbers(table: PredictionTable, rule: DecisionRule) -> list[Number]:
    """What the rule brings on the images of a table."""
    found = decide_all(table, rule)
    numbers = []
    for place, name in enumerate(found.names):
        there, said = found.there[:, place], found.said[:, place]
        of = f" of {name}"
        if there.any():
            numbers.append(Number(f"recall{of}", intervals.share(said[there]), f"of {there.sum():,} are found"))
        if said.any():
            numbers.append(Number(f"precision{of}", intervals.share(there[said]), f"of {said.sum():,} said are right"))
    numbers += _costs(found) if isinstance(rule, Costs) else []
    numbers.append(Number("decisions right", intervals.share(found.right), "of all images"))
    numbers.append(Number("for review", intervals.share(found.review), "of all images are in doubt"))
    if not found.right.all():
        meaning = f"of {(~found.right).sum():,} wrong decisions are for review"
        numbers.append(Number("mistakes for review", intervals.share(found.review[~found.right]), meaning))
    return numbers


def _costs(found: Decisions) -> list[Number]:
    assert found.costs is not None
    assert found.plain is not None
    return [
        Number("cost", _mean(found.costs), "of an image, by these decisions", plain=True),
        Number(
            "cost of the likeliest", _mean(found.plain), "of an image, if the likeliest class were said", plain=True
        ),
    ]


def _mean(values: np.ndarray) -> Estimate:
    drawn = values[np.random.default_rng(0).integers(len(values), size=(DRAWS, len(values)))].mean(axis=1)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return Estimate(float(values.mean()), float(low), float(high))


def decision_table(table: PredictionTable, rule: DecisionRule, *, note: str = "") -> "Table":
    """The same for a terminal."""
    from rich.table import Table
    from rich.text import Text

    shown = Table(
        box=None, show_header=False, pad_edge=False, title=f"Decisions by {rule.asked}{note}", title_justify="left"
    )
    for number in decision_numbers(table, rule):
        shown.add_row(Text(number.name), show_both(number), number.meaning)
    return shown


def threshold_rows(rule: DecisionRule) -> list[tuple[str, ...]]:
    """Each class or label with its threshold and the band of doubt."""
    if not isinstance(rule, Thresholds):
        return []
    each = {name: rule.of(name) for name in rule.thresholds}
    return [(name, f"{one.at:.3g}", f"{one.low:.3g} to {one.high:.3g}") for name, one in each.items()]
