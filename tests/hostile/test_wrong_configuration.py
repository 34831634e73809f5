"""Wrong configuration is one line with the name of the file that is wrong."""

import json
import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from made_run import made_run, run_folder  # noqa: F401
from sealing import seal
from tiny import make_spots, tiny_recipe
from tiny_fit import at_step

from saccade.cli import main
from saccade.runs import RunFolder
from saccade.training.phases import Training
from saccade.training.recipe import dump_recipe, load_recipe
from tests.hostile.fuzz_configurations import limited

FUZZ = Path(__file__).with_name("fuzz_configurations.py")
# Eight lists of nine aliases each, of the list before: 9⁹ words.
LETTERS = "abcdefghi"
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{now}: &{now} [{', '.join([f'*{before}'] * 9)}]\n" for before, now in pairwise(LETTERS)
)


def run_fuzz(**counts: int) -> None:
    words = [f"--{name}={count}" for name, count in counts.items()]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(FUZZ), *words],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(FUZZ.parents[2])},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_wrong_recipes_models_and_runs_are_one_line_with_their_name():
    run_fuzz(recipes=12, models=12, runs=1, checkpoints=0)


@pytest.mark.slow
def test_a_thousand_recipes_five_hundred_models_and_a_hundred_runs():
    run_fuzz(seed=10_000, recipes=1000, models=500, runs=100, checkpoints=300)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "its aliases stand for more than 10,000 values"),
        (f"{BOMB}imports: *i\n", "its aliases stand for more than 10,000 values"),
        ("a: &a [*a]\n", "its aliases stand for more than 10,000 values"),
        ("guide:\n", "no key guide: expected some of data, model, training"),
        ("training:\n", "training is empty: expected keys with values"),
        ("data:\n", "data is empty: expected keys with values"),
        ("model:\n  selection:\n", "model.selection is empty: expected keys with values"),
        ("training:\n  label_free:\n", "training.label_free is empty: expected keys with values"),
        ("training:\n  label_free: 3\n", "training.label_free is 3: expected keys with values"),
        ("training:\n  phases: [3]\n", "training.phases is [3]: expected a list of keys with values or null"),
        ("seed:\n", "seed is empty: expected a whole number"),
        ("batch: 1000000000000000000000000000000\n", "expected at least 1, and at most 1,000,000"),
        ("", "holds nothing, expected keys and values"),
        ("- a\n", "holds a list, expected keys and values"),
        ("a: [\n", "not YAML that can be read"),
        ("a: \x00\n", "not YAML that can be read"),
        ("steps: " + "[" * 2000 + "]" * 2000, "not YAML that can be read (RecursionError"),
        ("steps: 2001-01-01\n", "steps is 2001-01-01: expected a whole number"),
        ("3: 4\n", "no key 3"),
    ],
)
def test_a_wrong_recipe_is_one_line_with_its_name(text, message, tmp_path):
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    with limited(), pytest.raises(ValueError, match=r"^\S+/wrong\.yaml: ") as refusal:
        load_recipe(path)
    assert message in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1


@pytest.fixture
def recipe(tmp_path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(dump_recipe(tiny_recipe(make_spots(tmp_path / "spots", 10), steps=1, training=Training())))
    return path


def test_what_only_building_the_model_shows_names_the_recipe_too(recipe, tmp_path, capsys):
    recipe.write_text(recipe.read_text().replace("width: 8", "width: -8"))
    assert main(["train", str(recipe), "--out", str(tmp_path / "run")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("saccade: error: widths are [-8")
    assert line.endswith(f"(recipe: {recipe})")


def test_a_folder_may_be_called_what_rich_takes_for_markup(recipe, tmp_path, monkeypatch, capsys):
    run = tmp_path / "run[/b]"
    words = ["train", str(recipe), "--out", str(run), "--steps", "3", "--validate_every", "1"]
    at_step(1, lambda: os.kill(os.getpid(), signal.SIGTERM), monkeypatch)
    assert main(words) == 130
    assert f"all is saved in {run}" in "".join(capsys.readouterr().out.splitlines())
    assert main(words) == main(words) == 0
    assert f"{run} is finished" in capsys.readouterr().out
    assert main(["evaluate", str(run)]) == 0


def test_no_error_moves_a_terminals_cursor(tmp_path, capsys):
    (tmp_path / "a.yaml").write_text('steps: "\\e[2J"\n')
    assert main(["train", str(tmp_path / "a.yaml")]) == 2
    assert r"steps is \x1b[2J: expected a whole number" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_classes": "many"}, 'num_classes is "many", expected a whole number'),
        ({"num_classes": 0}, "num_classes is 0: expected at least 1"),
        ({"image_size": [64]}, "image_size is [64], expected a list of 2 whole numbers"),
        ({"classes": ["a"]}, "classes has 1 names: expected num_classes, which is 2"),
        ({"features": None}, "features is null, expected keys with values"),
        ({"features": {"name": "ats", "width": -8}}, "widths are [-8"),
        ({"preparation": 3}, "preparation is 3, expected keys with values"),
        ({"selection": {"name": ["a"]}}, "unknown selection ['a']"),
        ({"system": "rnn"}, "unknown system 'rnn'"),
        ({"imports": ["no_such_module"]}, "there is no such module"),
    ],
)
def test_a_config_that_describes_no_model_is_named(change, message, run_folder, capsys):  # noqa: F811
    config = run_folder / "best" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | change))
    seal(config.parent)
    assert main(["predict", str(run_folder), __file__]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"saccade: error: {config}: ")
    assert message in line


def wrong_panel(path: Path) -> None:
    with np.load(path) as file:
        values = dict(file)
    np.savez(path, **values | {"picture_0": values["picture_0"][0]})


WRONG = {
    "panels/0000004.npz": wrong_panel,
    "panels/0000016.npz": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "run.json": lambda path: path.write_text(path.read_text().replace('"from": 0', '"form": 0')),
    "evaluation/test.json": lambda path: path.write_text('{"accuracy": null}'),
    "evaluation/test.csv": lambda path: path.write_text(path.read_text().replace("along", "alone", 3)),
    "metrics.csv": lambda path: path.write_text("step,train/loss\n1," + "1" * 200_000),
    "recipe.yaml": lambda path: path.write_text(BOMB),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_report_names_the_file_that_is_damaged(name, run_folder, capsys):  # noqa: F811
    WRONG[name](run_folder / name)
    with limited():
        assert main(["report", str(run_folder)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"saccade: error: {run_folder / name}: ")


def test_the_run_that_is_damaged_in_these_tests_is_sound(run_folder):  # noqa: F811
    assert RunFolder(run_folder).read().evaluation["accuracy"] >= 0
