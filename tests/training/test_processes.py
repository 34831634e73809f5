"""Two processes on one machine do what one does."""

import csv
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from tiny import make_spots, tiny_recipe

from saccade.runs.step_tables import read_metrics
from saccade.training.phases import LabelFreeOptions, Training
from saccade.training.recipe import dump_recipe, load_recipe
from saccade.training.run import train


@pytest.fixture(scope="module")
def recipe_file(tmp_path_factory):
    """Without noise and batch norm, which each process would have of its own; 14 images to validate, 7 each."""
    folder = tmp_path_factory.mktemp("two")
    label_free = Training(label_free=LabelFreeOptions(2))
    recipe = tiny_recipe(make_spots(folder / "spots", 70), training=label_free, steps=6, validate_every=4)
    stages = replace(
        recipe.model,
        selection={"name": "exhaustive"},
        features={"name": "backbone", "model": "test_convnext"},
        extraction={"patch": 32},
        scorer={"name": "conv", "widths": [4], "pool": 8},
    )
    data = replace(recipe.data, augmentation={"name": "none"})
    path = folder / "recipe.yaml"
    path.write_text(dump_recipe(replace(recipe, model=stages, data=data)))
    return path


def test_two_processes_give_the_numbers_of_one(recipe_file):
    alone = train(load_recipe(recipe_file), recipe_file.parent / "alone")
    together = recipe_file.parent / "together"
    words = ["train", str(recipe_file), "--devices", "2", "--out", str(together)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "saccade.cli", *words], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("report: ") == 1
    for one, two in zip(*(read_metrics(run / "metrics.csv") for run in (alone, together)), strict=True):
        validated = {name: value for name, value in one.items() if name == "step" or name.startswith("val/")}
        assert {name: two[name] for name in validated} == pytest.approx(validated, abs=1e-4)
    seen = [row["image"] for row in csv.DictReader((together / "evaluation" / "test.csv").open())]
    expected = [row["image"] for row in csv.DictReader((alone / "evaluation" / "test.csv").open())]
    assert seen == expected  # each exactly once
