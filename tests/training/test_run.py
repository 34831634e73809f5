"""A run from beginning to end, and from wherever it was stopped."""

import json
import logging
import math
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
import yaml
from safetensors.torch import load_file
from tiny import make_spots, tiny_recipe
from tiny_fit import CrashError, at_step, crash, make_parts

from saccade.building import load_model
from saccade.config import Stages
from saccade.data import loading
from saccade.evaluation import measure
from saccade.runs import RunFolder, run_folder
from saccade.training import loop
from saccade.training.interrupts import Stopped
from saccade.training.phases import Training
from saccade.training.recipe import DataOptions, Recipe, dump_recipe
from saccade.training.run import train

TOTAL = 16


@pytest.fixture(scope="module")
def spots(tmp_path_factory) -> Path:
    return make_spots(tmp_path_factory.mktemp("data") / "spots")


@pytest.fixture(scope="module")
def without_pictures():
    """Panels have tests of their own; here they would take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "Panels", lambda *_, **__: Mock())
        yield


@pytest.fixture(scope="module")
def undisturbed(spots, tmp_path_factory, without_pictures) -> Path:
    return train(tiny_recipe(spots), tmp_path_factory.mktemp("runs") / "undisturbed")


def assert_same_run(run: Path, other: Path) -> None:
    for name in ("best", "last"):
        weights, expected = (load_file(folder / name / "model.safetensors") for folder in (run, other))
        assert weights.keys() == expected.keys()
        for key in weights:
            assert torch.equal(weights[key], expected[key]), (name, key)
    assert (run / "metrics.csv").read_text() == (other / "metrics.csv").read_text()
    assert (run / "evaluation" / "test.csv").read_text() == (other / "evaluation" / "test.csv").read_text()


def test_a_run_folder_holds_everything(spots, tmp_path):
    run = train(tiny_recipe(spots), tmp_path / "run")
    held = {path.name for path in run.iterdir()}
    assert held >= {
        "recipe.yaml",
        "run.json",
        "metrics.csv",
        "best",
        "last",
        "checkpoints",
        "evaluation",
        "tensorboard",
        "panels",
    }
    assert yaml.safe_load((run / "recipe.yaml").read_text()) == yaml.safe_load(dump_recipe(tiny_recipe(spots)))
    facts = json.loads((run / "run.json").read_text())
    assert facts["seed"] == 0
    assert facts["versions"]["torch"] == torch.__version__.partition("+")[0]
    assert facts["parameters"] == sum(p.numel() for p in load_model(run / "best").parameters())
    assert [row["step"] for row in RunFolder(run).metrics()] == [0, 5, 10, 15, 16]
    phases = [(phase["name"], phase["from"], phase["to"]) for phase in facts["phases"]]
    assert phases == [("label_free", 0, 4), ("labels", 4, 16)]
    assert not list(run.rglob("*.part"))


def test_classes_travel_with_the_model(undisturbed):
    assert load_model(undisturbed / "best").config.classes == ("across", "along")


@pytest.mark.parametrize("step", [0, 2, 4, 5, 6, 10, 13, 15])
def test_a_run_killed_at_any_step_ends_like_an_undisturbed_one(
    step, spots, undisturbed, tmp_path, without_pictures, monkeypatch
):
    at_step(step, crash, monkeypatch)
    with pytest.raises(CrashError):
        train(tiny_recipe(spots), tmp_path / "run")
    train(tiny_recipe(spots), tmp_path / "run")
    assert_same_run(tmp_path / "run", undisturbed)


@pytest.mark.parametrize("step", [1, 4, 9, 14])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_being_asked_to_stop_saves_the_step(step, number, spots, undisturbed, tmp_path, without_pictures, monkeypatch):
    before = signal.getsignal(number)
    at_step(step, lambda: os.kill(os.getpid(), number), monkeypatch)
    with pytest.raises(Stopped, match=f"step {step + 1}"):
        train(tiny_recipe(spots), tmp_path / "run")
    assert signal.getsignal(number) == before
    assert (tmp_path / "run" / "checkpoints" / f"{step + 1:08d}.ckpt").is_file()
    train(tiny_recipe(spots), tmp_path / "run")
    assert_same_run(tmp_path / "run", undisturbed)


def test_being_asked_to_stop_in_the_last_step_ends_the_run(spots, undisturbed, tmp_path, without_pictures, monkeypatch):
    at_step(TOTAL - 1, lambda: os.kill(os.getpid(), signal.SIGTERM), monkeypatch)
    train(tiny_recipe(spots), tmp_path / "run")
    assert_same_run(tmp_path / "run", undisturbed)


@pytest.mark.parametrize("left", [0, 100, 0.5, 0.99])
def test_a_truncated_checkpoint_is_passed_over(
    left, spots, undisturbed, tmp_path, without_pictures, caplog, monkeypatch
):
    at_step(12, crash, monkeypatch)
    with pytest.raises(CrashError):
        train(tiny_recipe(spots), tmp_path / "run")
    *_, newest = sorted((tmp_path / "run" / "checkpoints").glob("*.ckpt"))
    whole = newest.read_bytes()
    newest.write_bytes(whole[: left if isinstance(left, int) else int(left * len(whole))])
    with caplog.at_level(logging.WARNING, "saccade"):
        train(tiny_recipe(spots), tmp_path / "run")
    assert f"{newest} cannot be read" in caplog.text
    assert_same_run(tmp_path / "run", undisturbed)


def test_a_finished_run_is_left_alone(undisturbed, spots, capsys):
    before = {path: path.stat().st_mtime_ns for path in undisturbed.rglob("*")}
    train(tiny_recipe(spots), undisturbed)
    assert "is finished" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in undisturbed.rglob("*")} == before


def test_another_recipe_does_not_go_into_the_same_folder(undisturbed, spots):
    with pytest.raises(ValueError, match=r"steps 12 there, 13 here.*--out"):
        train(tiny_recipe(spots, steps=13), undisturbed)


def test_how_images_are_read_may_change_and_changes_nothing(
    undisturbed, spots, tmp_path, without_pictures, monkeypatch
):
    at_step(7, crash, monkeypatch)
    with pytest.raises(CrashError):
        train(tiny_recipe(spots), tmp_path / "run")
    recipe = tiny_recipe(spots)
    train(replace(recipe, data=replace(recipe.data, workers=1, cache_gb=1.0)), tmp_path / "run")
    assert_same_run(tmp_path / "run", undisturbed)


def test_a_run_of_a_version_that_knew_fewer_settings_is_resumed(
    undisturbed, spots, tmp_path, without_pictures, monkeypatch
):
    at_step(7, crash, monkeypatch)
    with pytest.raises(CrashError):
        train(tiny_recipe(spots), tmp_path / "run")
    path = tmp_path / "run" / "recipe.yaml"
    tree = yaml.safe_load(path.read_text())
    del tree["training"]["label_free"]["focus"], tree["training"]["sigma"]
    path.write_text(yaml.safe_dump(tree))
    train(tiny_recipe(spots), tmp_path / "run")
    assert_same_run(tmp_path / "run", undisturbed)


def test_a_recipe_with_a_tuple_is_the_one_that_was_written_as_a_list(spots, tmp_path, without_pictures):
    recipe = tiny_recipe(spots, steps=1)
    recipe = replace(recipe, model=replace(recipe.model, extraction={"patch": (20, 20)}))
    for _ in range(2):
        train(recipe, tmp_path / "run")


def test_a_run_with_settings_that_are_unknown_here_is_refused(spots, tmp_path):
    tree = yaml.safe_load(dump_recipe(tiny_recipe(spots)))
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump({**tree, "patience": 3}))
    with pytest.raises(ValueError, match=r"recipe that this version does not read .*patience.*--out"):
        train(tiny_recipe(spots), tmp_path)


def test_two_processes_do_not_train_in_one_folder(spots, tmp_path, without_pictures, monkeypatch):
    monkeypatch.setattr(run_folder, "WAIT_S", 0.5)
    refused = []

    def try_as_well():
        with pytest.raises(ValueError, match=r"another process trains in .*run: wait"):
            train(tiny_recipe(spots), tmp_path / "run")
        refused.append(True)

    at_step(7, try_as_well, monkeypatch)
    train(tiny_recipe(spots), tmp_path / "run")
    assert refused


def test_a_run_that_could_not_start_makes_way_for_the_corrected_one(spots, undisturbed, tmp_path, without_pictures):
    recipe, run = tiny_recipe(spots), tmp_path / "run"
    with pytest.raises(ValueError, match=r"accelerator is mps, devices 1, .* set --accelerator auto or cpu"):
        train(replace(recipe, accelerator="mps", seed=5), run)
    concat = replace(recipe.model, aggregation={"name": "concat"}, selection={"name": "hard", "k": 2})
    with pytest.raises(ValueError, match="mixture"):
        train(replace(recipe, model=concat, training=Training(loss={"mixture_coefficient": 1.0})), run)
    train(recipe, run)
    assert_same_run(run, undisturbed)
    assert (run / "recipe.yaml").read_text() == (undisturbed / "recipe.yaml").read_text()
    assert json.loads((run / "run.json").read_text())["seed"] == 0


def test_a_run_under_way_and_somebody_s_own_recipe_do_not_make_way(spots, tmp_path, without_pictures, monkeypatch):
    run, refused = tmp_path / "run", []

    def try_as_well():
        with pytest.raises(ValueError, match=r"steps 12 there, 13 here.*--out"):
            train(tiny_recipe(spots, steps=13), run)
        refused.append(True)

    run.mkdir()
    (run / "recipe.yaml").write_text("# mine\n" + dump_recipe(tiny_recipe(spots)))
    try_as_well()
    at_step(2, try_as_well, monkeypatch)  # before there is any checkpoint
    train(tiny_recipe(spots), run)
    assert len(refused) == 2
    assert (run / "recipe.yaml").read_text().startswith("# mine")


def test_more_processes_than_images_to_validate_are_refused_before_training(tmp_path):
    recipe = tiny_recipe(make_spots(tmp_path / "spots", 20), batch=5)  # 12 to train, 4 to validate, 4 to test
    with pytest.raises(ValueError, match=r"4 images in the split (val|test) and 5 processes .* fewer --devices"):
        train(replace(recipe, devices=5), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    make_parts(replace(recipe, batch=4, devices=4))


def test_what_was_drawn_is_told(tmp_path, capsys, without_pictures):
    data = make_spots(tmp_path / "spots", 20)
    table = data / "labels.csv"
    table.write_text(table.read_text().replace(",val,", ",train,"))
    train(tiny_recipe(data, steps=1), tmp_path / "run")
    assert "no validation split given: drew it from the 16 training images" in capsys.readouterr().out


def test_data_are_listed_and_the_best_model_is_loaded_once(spots, tmp_path, without_pictures, monkeypatch):
    listed, loaded, lists = [], [], loading.load
    monkeypatch.setattr("saccade.training.batches.load", lambda *a, **k: listed.append(1) or lists(*a, **k))
    monkeypatch.setattr("saccade.building.load_model", lambda folder: loaded.append(folder) or load_model(folder))
    train(tiny_recipe(spots, steps=1), tmp_path / "run")
    assert (len(listed), len(loaded)) == (1, 1)


def test_a_folder_of_something_else_is_refused(spots, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match="not empty and does not hold a run"):
        train(tiny_recipe(spots), tmp_path)


def test_a_mistyped_folder_of_data_takes_no_run_folder(spots, tmp_path, without_pictures):
    recipe = tiny_recipe(spots)
    with pytest.raises(ValueError, match="no such file or folder"):
        train(replace(recipe, data=replace(recipe.data, path=str(tmp_path / "nowhere"))), tmp_path / "run")
    train(replace(recipe, steps=2), tmp_path / "run")


def test_the_best_model_is_chosen_by_validation(undisturbed):
    rows = [row for row in RunFolder(undisturbed).metrics() if "val/accuracy" in row and row["step"] > 4]
    summary = json.loads((undisturbed / "evaluation" / "val.json").read_text())
    assert summary["accuracy"] == pytest.approx(max(row["val/accuracy"] for row in rows))


def test_a_final_run_trains_on_the_validation_images_and_keeps_the_last_model(
    spots, tmp_path, without_pictures, capsys
):
    recipe = replace(tiny_recipe(spots), final=True)
    images = {split: {record.image for record in data.records.records} for split, data in make_parts(recipe)[1].items()}
    assert images["val"] < images["train"]
    assert not images["test"] & images["train"]
    run = train(recipe, tmp_path / "run")
    assert "validation images are trained on too" in capsys.readouterr().out
    best, last = (load_model(run / name).state_dict() for name in ("best", "last"))
    assert all(torch.equal(best[name], last[name]) for name in last)


def test_a_run_whose_loss_is_never_a_number_says_so(spots, tmp_path, without_pictures, monkeypatch):
    monkeypatch.setattr(
        "saccade.training.evaluations.measure",
        lambda *which, **more: {**measure(*which, **more), "loss": math.nan},
    )
    for _ in range(2):  # resuming tells the same
        with pytest.raises(ValueError, match="the loss was not a number at any validation"):
            train(tiny_recipe(spots, steps=3), tmp_path / "run")


def test_images_of_different_sizes_train_together(tmp_path, without_pictures):
    data = make_spots(tmp_path / "data", 40, sizes=(SIDE_SMALL, 64, 80))
    run = train(tiny_recipe(data, steps=3), tmp_path / "run")
    assert json.loads((run / "evaluation" / "test.json").read_text())["images"] == 8


SIDE_SMALL = 48


def test_the_low_resolution_cnn_trains_by_the_same_recipe(spots, tmp_path, without_pictures):
    recipe = tiny_recipe(spots, steps=3)
    stages = replace(recipe.model, system="cnn")
    run = train(replace(recipe, model=stages, training=Training()), tmp_path / "run")
    summary = json.loads((run / "evaluation" / "test.json").read_text())
    assert summary["pixels"] == {"image": 64 * 64, "view": 16 * 16}
    assert "hit_rate" not in summary


KILLED = """
import os, signal, sys
from saccade.training import loop
prepare = loop.prepare_step
def prepare_or_die(optimizer, recipe, step):
    if step == 8:
        os.kill(os.getpid(), signal.SIGKILL)
    prepare(optimizer, recipe, step)
loop.prepare_step = prepare_or_die
from saccade.cli import main
main(sys.argv[1:])
"""


def test_sigkill_from_the_command_line(spots, undisturbed, tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(dump_recipe(tiny_recipe(spots)))
    words = ["train", str(recipe), "--out", str(tmp_path / "run")]
    killed = subprocess.run([sys.executable, "-c", KILLED, *words], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert json.loads((tmp_path / "run" / "run.json").read_text())["seconds_of_training"] > 0
    command = [sys.executable, "-m", "saccade.cli", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "resuming at step 5" in done.stdout
    assert_same_run(tmp_path / "run", undisturbed)


@pytest.mark.parametrize("stage", ["selection", "features", "aggregation"])
def test_a_wrong_part_is_refused_before_any_image_is_made(tmp_path, stage):
    data = DataOptions(path=str(tmp_path / "signs"), generate={"name": "signs", "count": 40})
    recipe = Recipe(data=data, model=Stages(**{stage: {"name": "nothing"}}))
    with pytest.raises(ValueError, match=f"unknown {stage} 'nothing'"):
        train(recipe, tmp_path / "run")
    assert not list(tmp_path.iterdir())
