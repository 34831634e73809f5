import math
from dataclasses import replace
from unittest.mock import create_autospec

import pytest

from saccade.data.dataset import ImageDataset
from saccade.training.defaults import length
from saccade.training.learner import Learner
from saccade.training.phases import LabelFreeOptions, Training
from saccade.training.recipe import Recipe

RECIPE = Recipe(training=Training("guided_by_scores", LabelFreeOptions(steps=30)), steps=10_000)
SECONDS = {"label_free": 2.0, "by_scores": 0.5, "soft": 1.0}
EACH = 0.75 * 0.5 + 0.25 * 1.0


def timed(monkeypatch, faster: float, validation: float = 0.0) -> None:
    """Steps take `SECONDS`, in bfloat16 `faster` times less, and a validation so many."""

    def time_phases(recipe, learner, train):
        by = faster if recipe.precision == "bf16-mixed" else 1.0
        return [(name, seconds / by) for name, seconds in SECONDS.items()]

    monkeypatch.setattr(length, "_time_phases", time_phases)
    monkeypatch.setattr(length, "_time_validation", lambda recipe, learner, val: validation)


def fit(minutes: float, recipe: Recipe = RECIPE, **options) -> length.Fitted:
    learner, images = create_autospec(Learner, instance=True), create_autospec(ImageDataset, instance=True)
    return length.fit_into(recipe, learner, {"train": images, "val": images}, minutes, **options)


def test_steps_fill_the_minutes(monkeypatch):
    timed(monkeypatch, 3.0)
    fitted = fit(10)
    assert fitted.recipe.steps == int((600 * 0.85 - 30 * 2.0) / EACH)
    assert fitted.minutes == pytest.approx(10, rel=0.01)
    assert (fitted.recipe.precision, fitted.speedup) == ("32-true", None)  # nobody asked for another one


@pytest.mark.parametrize(("seconds", "validations"), [(4.0, 20), (9.0, 10), (22.5, 4), (60.0, 4)])
def test_validations_that_take_long_are_fewer(monkeypatch, seconds, validations):
    """Ten minutes have 90 s for them; four there are in any case, and steps then have what they leave."""
    timed(monkeypatch, 1.0, seconds)
    fitted = fit(10)
    assert fitted.recipe.leg == math.ceil(fitted.recipe.plan.total / validations) or validations == 20
    left = min(600 * 0.85, 600 - validations * seconds)
    assert fitted.recipe.steps == int((left - 30 * 2.0) / EACH)
    assert fitted.minutes == pytest.approx(10, rel=0.01)


def test_there_are_never_more_steps_than_the_recipe_has_nor_too_few_to_learn(monkeypatch):
    timed(monkeypatch, 1.0)
    assert fit(1000, replace(RECIPE, steps=70)).recipe.steps == 70
    assert fit(0.1).recipe.steps == length.FEWEST_STEPS


@pytest.mark.parametrize(("trial", "times"), [(False, 1), (True, 2)])
def test_a_frozen_start_leaves_its_share_of_the_time_and_a_trial_takes_half_of_that(monkeypatch, trial, times):
    timed(monkeypatch, 1.0)
    frozen = replace(RECIPE, training=replace(RECIPE.training, frozen=True, trial=trial))
    assert fit(10, frozen).recipe.steps == int((600 * 0.6 / times * 0.85 - 30 * 2.0) / EACH)


@pytest.mark.parametrize(("faster", "taken"), [(0.5, False), (1.2, False), (1.3, True), (2.0, True)])
def test_bfloat16_is_taken_where_it_is_clearly_faster(monkeypatch, faster, taken):
    timed(monkeypatch, faster)
    fitted = fit(10, any_precision=True)
    assert fitted.speedup == pytest.approx(faster)
    assert fitted.recipe.precision == ("bf16-mixed" if taken else "32-true")
    by = faster if taken else 1.0
    assert fitted.recipe.steps == int((600 * 0.85 - 30 * 2.0 / by) / (EACH / by))
