"""Numbers of decisions are counts by hand."""

import pytest

from saccade.deciding import Costs, Thresholds
from saccade.evaluation import wilson_interval
from saccade.evaluation.decided import decide_all, measure_decisions
from saccade.report.decision_numbers import decision_numbers, read_rule
from saccade.runs.prediction_tables import PredictionRow, PredictionTable


def table(rows, classes, task="single"):
    no = float("nan")
    made = (PredictionRow(f"{i}.png", there, said, max(p), no, no, no, p) for i, (there, said, p) in enumerate(rows))
    return PredictionTable(classes, tuple(made), task)


TWO = table(
    [
        ("defect", "defect", (0.1, 0.9)),
        ("defect", "clean", (0.7, 0.3)),
        ("defect", "clean", (0.95, 0.05)),
        ("clean", "clean", (0.75, 0.25)),
        ("clean", "clean", (0.99, 0.01)),
    ],
    ("clean", "defect"),
)
RULE = Thresholds(TWO.classes, "recall 0.6 of 'defect'", {"defect": [0.2, 0.04, 0.28]})


def test_found_right_and_for_review():
    numbers = {number.name: number.estimate for number in decision_numbers(TWO, RULE)}
    assert numbers["recall of defect"] == (2 / 3, *wilson_interval(2, 3))
    assert numbers["precision of defect"] == (2 / 3, *wilson_interval(2, 3))
    assert numbers["decisions right"].value == 3 / 5
    assert numbers["for review"].value == 2 / 5  # 0.05 and 0.25
    assert numbers["mistakes for review"].value == 1
    shares = {"decision_accuracy": 0.6, "review": 0.4}
    shares |= dict.fromkeys(("decision_f1", "decision_recall", "decision_precision"), 2 / 3)
    assert measure_decisions(decide_all(TWO, RULE)) == pytest.approx(shares)


def test_of_several_labels_f1_is_of_each_and_in_the_mean():
    rows = [("a;b", "a", (0.9, 0.4)), ("a", "a", (0.6, 0.1)), (";", ";", (0.45, 0.1)), ("b", ";", (0.2, 0.2))]
    several = table(rows, ("a", "b"), "multi")
    rule = Thresholds(several.classes, "F1", {"a": [0.4, 0.4, 0.4], "b": [0.3, 0.3, 0.3]}, several=True)
    values = measure_decisions(decide_all(several, rule))
    assert values["decision_f1:a"] == pytest.approx(4 / 5)
    assert values["decision_f1:b"] == pytest.approx(2 / 3)
    assert values["decision_f1"] == pytest.approx((4 / 5 + 2 / 3) / 2)
    assert values["decision_accuracy"] == 0.5


def test_costs_are_those_of_the_mistakes():
    rule = Costs(TWO.classes, "costs", {"defect:clean": 5.0})  # said from 1/6 on
    values = measure_decisions(decide_all(TWO, rule))
    assert values["decision_cost"] == pytest.approx((5 + 1) / 5)  # one missed, one false alarm
    assert values["cost_of_the_likeliest"] == pytest.approx(10 / 5)
    low, high = next(n.estimate[1:] for n in decision_numbers(TWO, rule) if n.name == "cost")
    assert low < 6 / 5 < high


def test_the_rule_is_read_from_an_evaluation():
    assert read_rule({"decision": RULE.spec()}, TWO) == RULE
    assert read_rule({}, TWO) is None
