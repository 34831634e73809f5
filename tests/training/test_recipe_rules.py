"""Every value of a recipe that cannot be trained is refused by name, and the refusal does not wait for torch."""

import re
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from saccade.training.recipe import Recipe
from saccade.training.recipe_rules import check_recipe


def changed(key: str, value: Any) -> Recipe:
    """The default recipe with one value changed."""
    head, _, tail = key.partition(".")
    recipe = Recipe(steps=100)
    return replace(recipe, **{head: replace(getattr(recipe, head), **{tail: value}) if tail else value})


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("steps", 0, "at least 1"),
        ("batch", 0, "at least 1"),
        ("devices", 0, "at least 1"),
        ("nodes", -1, "at least 1"),
        ("seed", -1, "0 or more"),
        ("warm_up.steps", -1, "0 or more"),
        ("warm_up.lr", 0.0, "a number above 0"),
        ("warm_up.focus", -1.0, "0 or more"),
        ("balanced", 1.5, "a share from 0 to 1"),
        ("data.workers", -1, "0 or more"),
        ("model.preparation.max_pixels", 0, "at least 1"),
        ("data.cache_gb", -1.0, "0 or more"),
        ("model.preparation.resize", (0, 100), "a height and a width of at least one pixel"),
        ("optimizer.lr", -1e-3, "a number above 0"),
        ("optimizer.lr", float("nan"), "a number above 0"),
        ("optimizer.lr", float("inf"), "a number above 0"),
        ("optimizer.scorer_lr", 0.0, "a number above 0"),
        ("optimizer.weight_decay", -1e-4, "0 or more"),
        ("optimizer.momentum", 1.0, "0 or more and below 1"),
        ("optimizer.scorer_start", 1.5, "a share from 0 to 1"),
        ("optimizer.scorer_rise", -0.1, "a share from 0 to 1"),
        ("optimizer.clip_value", 0.0, "a number above 0, or null"),
        ("optimizer.clip_norm", -1.0, "a number above 0, or null"),
        ("schedule.warm_up", 1.0, "a share of the steps, 0 or more and below 1"),
        ("schedule.factor", 0.0, "a number above 0"),
        ("schedule.milestones", (0.8, 0.6), "ascending shares of the steps between 0 and 1"),
        ("schedule.milestones", (0.6, 0.6), "ascending shares"),
        ("schedule.milestones", (0.0, 0.5), "ascending shares"),
        ("schedule.milestones", (0.5, 60.0), "ascending shares"),
        ("validate_every", 0, "at least 1"),
    ],
)
def test_a_bad_value_is_named(key, value, expected):
    shown = re.escape(str(list(value) if isinstance(value, tuple) else value))
    with pytest.raises(ValueError, match=rf"^{re.escape(key)} is {shown}: expected .*{re.escape(expected)}"):
        check_recipe(changed(key, value))


def test_noise_that_is_gone_at_the_end_is_not_tested_with():
    soft = changed("model.selection", {"name": "perturbed", "k": 3, "discrete": False})
    with pytest.raises(ValueError, match="expected sigma_decay constant, or discrete true"):
        check_recipe(soft)
    check_recipe(replace(soft, sigma_decay="constant"))


def test_a_scorer_that_starts_with_equal_scores_needs_a_gentle_start():
    bare = changed("model.scorer", {"name": "backbone"})
    with pytest.raises(ValueError, match=r"expected optimizer.clip_norm, such as 1\.0"):
        check_recipe(bare)
    check_recipe(replace(bare, optimizer=replace(bare.optimizer, clip_norm=1.0)))
    check_recipe(replace(bare, guide=replace(bare.guide, share=0.5)))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("steps", 1),
        ("warm_up.steps", 0),
        ("optimizer.weight_decay", 1.0),
        ("optimizer.clip_value", 0.1),
        ("optimizer.scorer_start", 0.0),
        ("schedule.warm_up", 0.0),
        ("schedule.milestones", ()),
        ("validate_every", 100),
        ("model.preparation.resize", (1, 1)),
    ],
)
def test_values_at_the_edge_are_fine(key, value):
    check_recipe(changed(key, value))


def test_a_batch_that_cannot_be_shared_out_is_refused_with_one_that_can():
    with pytest.raises(ValueError, match=r"batch is 16: expected a multiple of 6, .* 3 devices on 2 nodes, such as 18"):
        check_recipe(Recipe(batch=16, devices=3, nodes=2))
    check_recipe(Recipe(batch=18, devices=3, nodes=2))


def test_checking_does_not_wait_for_torch():
    code = (
        "import sys; from saccade.training.recipe import Recipe; "
        "from saccade.training.recipe_rules import check_recipe; "
        "check_recipe(Recipe()); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
