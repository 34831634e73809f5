"""Every value of a recipe that cannot be trained is refused by name, and the refusal does not wait for torch."""

import re
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from saccade.recipes import list_recipes
from saccade.training.phases import Phase, Training
from saccade.training.recipe import DataOptions, Recipe, dump_recipe, load_recipe, parse_given, parse_recipe


def changed(key: str, value: Any, tree: Any = None) -> Any:
    """The default recipe with one value changed."""
    head, _, tail = key.partition(".")
    tree = tree or Recipe(steps=100)
    return replace(tree, **{head: changed(tail, value, getattr(tree, head)) if tail else value})


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("steps", -1, "0 or more"),
        ("batch", 0, "at least 1"),
        ("devices", 0, "at least 1"),
        ("nodes", -1, "at least 1"),
        ("seed", -1, "0 or more"),
        ("training.label_free.steps", -1, "0 or more"),
        ("training.label_free.focus", -1.0, "0 or more"),
        ("training.guided", 1.5, "a share from 0 to 1"),
        ("training.evenly", 1.5, "a share from 0 to 1"),
        ("training.scorer.rate", 0.0, "a number above 0"),
        ("training.scorer.start", 1.5, "a share from 0 to 1"),
        ("data.workers", -1, "0 or more"),
        ("data.cache_gb", -1.0, "0 or more"),
        ("optimizer.lr", -1e-3, "a number above 0"),
        ("optimizer.lr", float("nan"), "a number above 0"),
        ("optimizer.lr", float("inf"), "a number above 0"),
        ("optimizer.weight_decay", -1e-4, "0 or more"),
        ("optimizer.momentum", 1.0, "0 or more and below 1"),
        ("optimizer.clip_value", 0.0, "a number above 0"),
        ("optimizer.clip_norm", -1.0, "a number above 0"),
        ("schedule.warm_up", 1.0, "0 or more and below 1"),
        ("schedule.factor", 0.0, "a number above 0"),
        ("schedule.milestones", (0.8, 0.6), "ascending shares of the steps between 0 and 1"),
        ("schedule.milestones", (0.6, 0.6), "ascending shares"),
        ("schedule.milestones", (0.0, 0.5), "ascending shares"),
        ("schedule.milestones", (0.5, 60.0), "ascending shares"),
        ("validate_every", 0, "at least 1"),
    ],
)
def test_a_bad_value_is_named(key, value, expected):
    shown = list(value) if isinstance(value, tuple) else value
    message = rf"^{re.escape(f'{key} is {shown}')}: expected .*{re.escape(expected)}"
    with pytest.raises(ValueError, match=message):
        changed(key, value)
    with pytest.raises(ValueError, match=message):  # as a flag too
        parse_recipe([f"--{key}={'.' + str(shown) if shown != shown or shown == float('inf') else shown}"])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("steps", 1),
        ("training.label_free.steps", 0),
        ("training.guided", None),
        ("training.evenly", True),
        ("optimizer.weight_decay", 1.0),
        ("optimizer.clip_value", 0.1),
        ("optimizer.clip_value", None),
        ("training.scorer.start", 0.0),
        ("schedule.warm_up", 0.0),
        ("schedule.milestones", ()),
        ("validate_every", 100),
        ("model.preparation.resize", (1, 1)),
    ],
)
def test_values_at_the_edge_are_fine(key, value):
    changed(key, value).check_together()


def test_values_of_phases_that_are_written_out_are_looked_at_too():
    with pytest.raises(ValueError, match=r"the phase soft\.share is 1\.5: expected a share from 0 to 1"):
        Training(phases=[Phase("soft", share=1.5)])


def test_noise_that_is_gone_at_the_end_is_not_tested_with():
    soft = changed("model.selection", {"name": "perturbed", "k": 3, "discrete": False})
    with pytest.raises(ValueError, match=r"expected training\.sigma constant, or discrete true"):
        soft.check_together()
    changed("training.sigma", "constant", soft).check_together()


def test_a_scorer_that_starts_with_equal_scores_needs_a_gentle_start():
    bare = changed("model.scorer", {"name": "backbone"})
    with pytest.raises(ValueError, match=r"expected optimizer\.clip_norm, such as 1\.0"):
        bare.check_together()
    changed("optimizer.clip_norm", 1.0, bare).check_together()
    changed("training.name", "guided_by_scores", bare).check_together()


def test_a_batch_that_cannot_be_shared_out_is_refused_with_one_that_can():
    with pytest.raises(ValueError, match=r"batch is 16: expected a multiple of 6, .* 3 devices on 2 nodes, such as 18"):
        Recipe(batch=16, devices=3, nodes=2).check_together()
    Recipe(batch=18, devices=3, nodes=2).check_together()


@pytest.mark.parametrize("name", [recipe.name for recipe in list_recipes()])
def test_a_recipe_survives_being_written_and_read(name, tmp_path):
    recipe = load_recipe(name)
    (tmp_path / "recipe.yaml").write_text(dump_recipe(recipe))
    assert load_recipe(tmp_path / "recipe.yaml") == recipe


def test_what_is_given_is_all_that_is_given():
    flags = ["--model.selection={name: diverse, k: 2}", "--model.selection.sigma=1e-3", "--data.path=007"]
    assert parse_given(flags) == {
        "model": {"selection": {"name": "diverse", "k": 2, "sigma": 1e-3}},
        "data": {"path": "007"},
    }
    assert parse_given([]) == {}


def test_a_mistake_in_a_file_is_told_like_one_in_a_flag_and_with_its_name(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("data: {workers: many}\n")
    with pytest.raises(ValueError, match=r"/recipe\.yaml: data\.workers is many: expected a whole number or null"):
        load_recipe(path)
    path.write_text("optimizer: {lrr: 1}\n")
    with pytest.raises(ValueError, match="lrr") as refusal:
        load_recipe(path)
    assert "\n" not in str(refusal.value)


def test_checking_does_not_wait_for_torch():
    code = (
        "import sys; from saccade.training.recipe import Recipe; "
        "Recipe().check_together(); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_steps_need_a_frozen_start():
    with pytest.raises(ValueError, match=r"steps is 0: expected at least 1, or training\.frozen"):
        Recipe(steps=0).check_together()
    augmented = Recipe(steps=0, training=Training(frozen=True), data=DataOptions(augmentation={"name": "flip"}))
    with pytest.raises(ValueError, match="flip and steps is 0: a frozen start looks at images as they are"):
        augmented.check_together()
    Recipe(steps=0, training=Training(name="tuned", frozen=True)).check_together()
    with pytest.raises(ValueError, match=r"final is true and training\.frozen too"):
        Recipe(final=True, training=Training(name="tuned", frozen=True)).check_together()
