"""What a decision rule decides of images with known labels: what was there, what was said, what is for review."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from saccade.deciding import Costs, DecisionRule, Thresholds
from saccade.runs.prediction_tables import PredictionTable
from saccade.tasks.labels import label_names


class Decisions(NamedTuple):
    """A row per image, a column for each class or label that has a threshold.

    costs: what each decision cost, where the rule goes by costs; plain, what the likeliest answer would have.
    """

    names: tuple[str, ...]
    there: Bool[np.ndarray, "n names"]
    said: Bool[np.ndarray, "n names"]
    right: Bool[np.ndarray, " n"]
    review: Bool[np.ndarray, " n"]
    costs: Float[np.ndarray, " n"] | None = None
    plain: Float[np.ndarray, " n"] | None = None


def decide_all(table: PredictionTable, rule: DecisionRule) -> Decisions:
    """What the rule makes of each row."""
    decided = [rule.decide(row.probabilities) for row in table.rows]
    names = tuple(rule.thresholds) if isinstance(rule, Thresholds) else ()
    there, said = (
        np.array([[name in label_names(table.task, text) for name in names] for text in texts], bool)
        for texts in ([row.label for row in table.rows], [each.label for each in decided])
    )
    right = np.array([each.label == row.label for each, row in zip(decided, table.rows, strict=True)])
    found = Decisions(names, there, said, right, np.array([each.review for each in decided]))
    if not isinstance(rule, Costs):
        return found
    place, labels = {name: number for number, name in enumerate(table.classes)}, [row.label for row in table.rows]
    costs, plain = (
        np.array([rule.matrix[place[true]][place[said]] for true, said in zip(labels, answers, strict=True)])
        for answers in ([each.label for each in decided], [row.predicted for row in table.rows])
    )
    return found._replace(costs=costs, plain=plain)


def measure_decisions(found: Decisions) -> dict[str, float]:
    """The numbers of decisions for an evaluation; of several labels F1 is told for each and in the mean."""
    values = {"decision_accuracy": float(found.right.mean()), "review": float(found.review.mean())}
    if found.costs is not None and found.plain is not None:
        values |= {"decision_cost": float(found.costs.mean()), "cost_of_the_likeliest": float(found.plain.mean())}
    both, there, said = ((kind).sum(axis=0) for kind in (found.there & found.said, found.there, found.said))
    with np.errstate(invalid="ignore"):
        each = {"f1": 2 * both / (there + said), "recall": both / there, "precision": both / said}
    for kind, numbers in each.items():
        known = {name: float(value) for name, value in zip(found.names, numbers, strict=True) if not np.isnan(value)}
        if known:
            values[f"decision_{kind}"] = float(np.mean(list(known.values())))
        if len(found.names) > 1:
            values |= {f"decision_{kind}:{name}": value for name, value in known.items()}
    return values
