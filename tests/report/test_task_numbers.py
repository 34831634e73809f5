"""The numbers of each task are what its measures are, and confusions of several labels count what they say."""

import numpy as np
import pytest
import torch

from saccade.report.answers import count_confusions, show_answers
from saccade.report.numbers import headline, show_both, show_number
from saccade.report.task_numbers import by_question, numbers_of, quadratic_kappa, r2
from saccade.runs.prediction_tables import PredictionRow, PredictionTable
from saccade.tasks.labels import Question
from saccade.tasks.multi import Multi
from saccade.tasks.ordinal import Ordinal

NAMES = ("a", "b", "c")


def row(label, predicted, shares=(), **more) -> PredictionRow:
    sure, unknown = max(shares, default=np.nan), np.nan
    return PredictionRow("1.png", label, predicted, sure, unknown, unknown, unknown, tuple(shares), **more)


@pytest.fixture(scope="module")
def several():
    generator = torch.Generator().manual_seed(0)
    target = (torch.rand(40, 3, generator=generator) > 0.5).float()
    logits = torch.randn(40, 3, generator=generator) + target
    task = Multi(NAMES)
    told = task.tell(logits.double())
    labels = [";".join(n for n, there in zip(NAMES, each, strict=True) if there) or ";" for each in target.tolist()]
    rows = [row(label, task.say(each).text, each.tolist()) for label, each in zip(labels, told, strict=True)]
    return PredictionTable(NAMES, tuple(rows), "multi"), task.measure(logits, target)


def test_of_several_labels_the_report_says_what_was_measured(several):
    table, measured = several
    found = {number.name: number.estimate for number in headline(table)}
    for name, key in {"auroc": "auroc", "average precision": "average_precision", "f1": "f1"}.items():
        assert found[name].value == pytest.approx(float(measured[key]), abs=1e-6)
    assert found["labels right"].value == pytest.approx(float(measured["accuracy"]))
    assert found["images right"].value == pytest.approx(float(measured["exact_match"]))
    assert found["auroc"].low < found["auroc"].value < found["auroc"].high
    (section,) = show_answers(table)
    assert [cells[0] for cells in section.below.rows] == list(NAMES)
    assert section.below.rows[1][2] == f"{100 * float(measured['auroc:b']):.1f}%"


def test_what_is_missed_is_set_beside_what_is_said_instead():
    rows = [row("a;b", "a;c", (0.9, 0.1, 0.8)), row("a", ";", (0.1, 0.1, 0.1)), row(";", "c", (0.1, 0.1, 0.8))]
    counts = count_confusions(PredictionTable(NAMES, tuple(rows), "multi"))
    expected = np.zeros((4, 4), int)
    expected[0, 0] = 1  # a, said
    expected[1, 2] = 1  # b missed, c said
    expected[0, 3] = 1  # a missed, nothing said
    expected[3, 2] = 1  # nothing missed, c said
    np.testing.assert_array_equal(counts, expected)


def test_levels_are_told_by_kappa():
    generator = torch.Generator().manual_seed(1)
    target = torch.randint(4, (50,), generator=generator)
    logits = (target[:, None] - torch.tensor([0.5, 1.5, 2.5])) + torch.randn(50, 3, generator=generator)
    task = Ordinal(("0", "0.33", "0.67", "1"))
    rows = [row(task.classes[t], task.say(told).text, told.tolist()) for t, told in zip(target, task.tell(logits))]  # noqa: B905
    kappa, accuracy, *_ = numbers_of(PredictionTable(task.classes, tuple(rows), "ordinal"))
    measured = task.measure(logits, target)
    assert kappa.estimate.value == pytest.approx(float(measured["kappa"]), abs=1e-6)
    assert accuracy.estimate.value == pytest.approx(float(measured["accuracy"]))
    assert show_number(kappa) == f"{kappa.estimate.value:.3g}"


def test_kappa_of_independent_answers_is_zero_and_r2_of_the_mean_too():
    every = np.array([(i, j) for i in range(4) for j in range(4)], float).T
    assert quadratic_kappa(*every) == pytest.approx(0)
    there = np.array([1.0, 2.0, 6.0])
    assert r2(there, np.full(3, 3.0)) == pytest.approx(0)


def test_numbers_are_told_in_their_unit():
    rows = [row("10", "12"), row("20", "20"), row("30", "29")]
    table = PredictionTable((), tuple(rows), "regression")
    error, explained = numbers_of(table)
    assert error.estimate.value == pytest.approx(1)
    assert explained.estimate.value == pytest.approx(1 - 5 / 200)
    assert show_both(error).startswith("1 (")
    (section,) = show_answers(table)
    assert section.beside.rows[0][:2] == ("10", "12")


def test_each_question_has_its_numbers_and_its_section():
    questions = (Question("kind", "single", ("x", "y")), Question("age", "regression", ()))
    rows = [row("x | 3", "x | 4", (0.8, 0.2)), row("y | 5", "x | 5", (0.6, 0.4)), row("y | 1", "y | 2", (0.1, 0.9))]
    table = PredictionTable(("kind: x", "kind: y"), tuple(rows), "questions", questions)
    parts = by_question(table)
    assert parts["kind"].classes == ("x", "y")
    assert [r.predicted for r in parts["age"].rows] == ["4", "5", "2"]
    found = {number.name: number.estimate.value for number in numbers_of(table)}
    assert found["kind: accuracy"] == pytest.approx(2 / 3)
    assert found["age: mean absolute error"] == pytest.approx(2 / 3)
    assert len(show_answers(table)) == 2
