import math

import numpy as np
import pytest
import torch
from rich.console import Console
from torchmetrics.functional.classification import binary_average_precision

from saccade.evaluation import wilson_interval
from saccade.report.numbers import amount, cost, headline, interval, numbers_table, percent
from saccade.runs import RunFolder


def test_the_headline_is_what_the_evaluation_measured(made_run):
    run = RunFolder(made_run).read()
    found = {number.name: number.estimate for number in headline(run.predictions["test"])}
    measured = run.evaluations["test"]
    for name in ("accuracy", "balanced accuracy", "average precision", "auroc", "hit rate", "overlap"):
        assert found[name].value == pytest.approx(measured[name.replace(" ", "_")], abs=1e-6), name
    rows = run.predictions["test"].rows
    assert found["accuracy"][1:] == wilson_interval(sum(row.label == row.predicted for row in rows), len(rows))
    for estimate in found.values():
        assert estimate.low <= estimate.value <= estimate.high


def test_the_average_precision_is_that_of_the_positive_class(made_run):
    table = RunFolder(made_run).read().predictions["test"]
    found = {name: headline(table, name)[2] for name in table.classes}
    for place, (name, told) in enumerate(found.items()):
        label = torch.tensor([row.label == name for row in table.rows]).long()
        score = torch.tensor([row.probabilities[place] for row in table.rows])
        assert told.estimate.value == pytest.approx(float(binary_average_precision(score, label)), abs=1e-6)
        assert told.meaning == f"area under precision against recall of the class {name}"
    assert found["across"].estimate.value != found["along"].estimate.value


def test_without_boxes_nothing_is_said_of_hits(made_run):
    answers = RunFolder(made_run).read().predictions["test"]
    blind = answers._replace(rows=tuple(row._replace(hit=np.nan, overlap=np.nan) for row in answers.rows))
    assert [number.name for number in headline(blind)] == [
        "accuracy",
        "balanced accuracy",
        "average precision",
        "auroc",
    ]


def test_what_it_took(made_run):
    spent = cost(RunFolder(made_run).read())
    assert (spent.minutes, spent.images_seen, spent.parameters, spent.milliseconds) == (1.5, 64, 1234, 1.5)
    assert spent.patch_pixels / spent.image_pixels == pytest.approx(800 / 4096)


def test_what_nobody_measured_is_a_dash(made_run):
    run = RunFolder(made_run).read()
    spent = cost(run._replace(facts={}, evaluations={}))
    assert amount(spent.minutes) == amount(spent.milliseconds) == percent(spent.patch_pixels) == "–"


@pytest.mark.parametrize(("value", "text"), [(0.0, "0.0%"), (0.5, "50.0%"), (0.99951, "99.9%"), (1.0, "100%")])
def test_only_perfect_is_a_hundred(value, text):
    assert percent(value) == text


def test_intervals_stay_within_a_hundred(made_run):
    for number in headline(RunFolder(made_run).read().predictions["test"]):
        low, high = interval(number.estimate).split("–")
        assert 0 <= float(low) <= float(high) <= 100


def test_a_summary_for_the_terminal(made_run):
    summary = {**RunFolder(made_run).read().evaluations["test"], "hardware": "[red]a core"}
    console = Console(width=100)
    with console.capture() as shown:
        console.print(numbers_table(summary))
    text = shown.get()
    low, high = wilson_interval(round(summary["accuracy"] * summary["images"]), summary["images"])
    assert f"{percent(summary['accuracy'])} ({100 * low:.1f}–{100 * high:.1f})" in text
    assert "[red]a core" in text
    assert "4,096 in the image, 256 in the view, 800 in the patches" in text
    assert not math.isnan(summary["loss"])
