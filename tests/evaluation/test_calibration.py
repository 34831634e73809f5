"""The temperature is where a fine grid says the loss is least, and left alone where chance explains what it gains."""

import numpy as np
import pytest
import torch
from oracles import seeded
from torch.testing import assert_close

from saccade.evaluation.calibration import (
    fit_temperature,
    fit_temperatures,
    reliability,
    temperature_band,
    with_temperatures,
)
from saccade.evaluation.predictions import Predictions
from saccade.tasks.labels import Question
from saccade.tasks.multi import Multi
from saccade.tasks.ordinal import Ordinal
from saccade.tasks.questions import Questions
from saccade.tasks.regression import Regression
from saccade.tasks.single import Single
from saccade.tasks.task import make_task, task_of

NAMES = ("a", "b", "c")


def drawn(task, logits, *, seed=0):
    """Labels as the task's own probabilities have them."""
    generator = seeded(seed)
    if task.name == "multi":
        return torch.bernoulli(task.tell(logits), generator=generator)
    return torch.multinomial(task.tell(logits), 1, generator=generator)[:, 0]


def predictions(logits, label):
    unknown = torch.full((len(logits),), torch.nan)
    nowhere, index = torch.zeros(len(logits), 0, 2), torch.arange(len(logits))
    return Predictions(index, label, logits, unknown, unknown, unknown, unknown, nowhere, unknown[:, None])


@pytest.mark.parametrize(
    "task", [Single(NAMES), Multi(NAMES), Ordinal(("0", "1", "2", "3"))], ids=lambda task: task.name
)
@pytest.mark.parametrize("count", [12, 200])
def test_the_temperature_is_the_best_of_a_fine_grid(task, count):
    logits = 4 * torch.randn(count, 3, generator=seeded(count), dtype=torch.float64)
    target = drawn(task, logits / 3)
    grid = torch.logspace(-1.3, 1.3, 2_001, base=10, dtype=torch.float64)
    losses = [float(task.losses(logits / each, target).sum() + 2 * each.log() ** 2) for each in grid]
    found = fit_temperature(task, logits, target)
    assert found.temperature == pytest.approx(float(grid[int(np.argmin(losses))]), rel=2e-3)
    assert found.after == pytest.approx(float(task.losses(logits / found.temperature, target).sum(dim=1).mean()))


@pytest.mark.parametrize(
    "task", [Single(NAMES), Multi(NAMES), Ordinal(("0", "1", "2", "3"))], ids=lambda task: task.name
)
def test_overconfidence_is_found_and_undone(task):
    honest = 2 * torch.randn(4000, 3, generator=seeded(1)).cummin(dim=1).values  # of levels each step is rarer
    found = fit_temperature(task, 2.5 * honest, drawn(task, honest))
    assert found.helps
    assert found.temperature == pytest.approx(2.5, rel=0.08)  # 4 of its standard deviations, 0.05


def test_probabilities_that_are_right_are_left_alone_but_for_chance():
    task, taken, runs = Single(NAMES), 0, 200
    for seed in range(runs):
        logits = 2 * torch.randn(40, 3, generator=seeded(seed))
        taken += fit_temperature(task, logits, drawn(task, logits, seed=seed + 1000)).helps
    assert taken / runs < 0.05 + 3 * (0.05 * 0.95 / runs) ** 0.5


def test_a_few_answers_that_are_all_right_do_not_make_it_sure():
    sure = torch.tensor([[2.2, 0.0]])  # 90%
    few, many = (
        fit_temperature(Single(("a", "b")), sure.repeat(count, 1), torch.zeros(count, dtype=torch.long))
        for count in (15, 300)
    )
    assert not few.helps
    assert many.helps
    assert few.temperature > 0.5


def test_images_of_one_group_count_as_one():
    logits = 3 * torch.randn(30, 3, generator=seeded(0))
    target = drawn(Single(NAMES), logits / 3)
    alone = fit_temperature(Single(NAMES), logits, target)
    tenfold = fit_temperature(Single(NAMES), logits.repeat(10, 1), target.repeat(10), independent=30)
    weak = fit_temperature(Single(NAMES), logits.repeat(10, 1), target.repeat(10), independent=2)
    assert alone.helps
    assert tenfold.helps
    assert not weak.helps


def test_the_interval_of_a_temperature_holds_it_nineteen_times_of_twenty():
    task, held = Single(("a", "b")), 0
    for seed in range(3):
        logits = 3 * torch.randn(60, 2, generator=seeded(seed))
        band = temperature_band(task, 2 * logits, drawn(task, logits, seed=seed + 50), [str(i) for i in range(60)])
        assert band.low < band.temperature < band.high
        held += band.low <= 2 <= band.high
    assert held >= 2  # of 3 at 95%


def test_what_is_told_is_of_the_logits_divided_by_the_temperature():
    logits = torch.randn(5, 3, generator=seeded(0))
    for name, classes in (("single", NAMES), ("multi", NAMES), ("ordinal", ("0", "1", "2", "3"))):
        plain, warm = (make_task({"name": name, **more}, classes, 3) for more in ({}, {"temperature": 2.0}))
        assert_close(warm.tell(2 * logits), plain.tell(logits))
        assert warm.say(warm.tell(logits)[0]).text == plain.say(plain.tell(logits)[0]).text
        target = drawn(plain, logits)
        assert_close(warm.losses(logits, target), plain.losses(logits, target))  # training knows of no temperature
        assert_close(warm.measure(2 * logits, target)["loss"], plain.measure(logits, target)["loss"])


def test_each_question_has_a_temperature_of_its_own_and_numbers_none():
    questions = (
        Question("kind", "single", NAMES),
        Question("age", "regression", ()),
        Question("spots", "multi", NAMES),
    )
    task = task_of("questions", (), questions)
    logits = torch.randn(400, 7, generator=seeded(0))
    kind, spots = drawn(Single(NAMES), logits[:, :3] / 4), drawn(Multi(NAMES), logits[:, 4:])
    target = torch.cat([kind[:, None].float(), torch.zeros(400, 1), spots], dim=1)
    fitted = fit_temperatures(task, predictions(logits, target), [str(place) for place in range(400)])
    assert [(each.question, each.helps) for each in fitted] == [("kind", True), ("spots", False)]
    spec = {
        "name": "questions",
        "questions": [{"name": q.name, "task": {"name": q.task}, "classes": list(q.classes)} for q in questions],
    }
    warm = make_task(with_temperatures(spec, fitted), (), 1)
    assert isinstance(warm, Questions)
    assert_close(warm.tell(logits)[:, :3], (logits[:, :3] / fitted[0].temperature).softmax(dim=1))
    assert_close(warm.tell(logits)[:, 3:], task.tell(logits)[:, 3:])
    assert with_temperatures(with_temperatures(spec, fitted), []) == spec


def test_bins_hold_every_answer_and_how_many_were_right():
    logits = 3 * torch.randn(200, 3, generator=seeded(0))
    target = drawn(Single(NAMES), logits)
    found = reliability(Single(NAMES, temperature=2.0), predictions(logits, target))[""]
    for bins in found.values():
        assert sum(each.count for each in bins) == 200
        assert sum(each.right for each in bins) == int((logits.argmax(dim=1) == target).sum())
    mean = sum(each.count * each.confidence for each in found["told"]) / 200
    assert mean == pytest.approx(float((logits / 2).softmax(dim=1).amax(dim=1).mean()), abs=1e-6)
    assert reliability(Regression(), predictions(logits[:, :1], logits[:, 0])) == {}
