"""Runs in MLflow and W&B, kept in a folder: numbers are those of metrics.csv, and a resumed run goes on in its own."""

import json
import logging
import math
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import load_file
from tiny import make_spots, tiny_recipe
from tiny_fit import CrashError, crash_at

from saccade import extras
from saccade.cli import main
from saccade.runs import RunFolder
from saccade.training import loop
from saccade.training.run import train
from saccade.training.tracking import Tracker


@pytest.fixture(scope="module")
def spots(tmp_path_factory):
    return make_spots(tmp_path_factory.mktemp("data") / "spots")


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    """A store in a folder, and no pictures."""
    monkeypatch.setattr(loop, "Panels", lambda *_, **__: Mock())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path / 'store'}")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")


def train_in_two(recipe, folder, monkeypatch) -> None:
    """Killed at step 12, two steps after a checkpoint, and resumed."""
    crash_at(12, monkeypatch)
    with pytest.raises(CrashError):
        train(recipe, folder)
    train(recipe, folder)


def test_mlflow_has_the_numbers_of_a_run_that_was_killed_and_resumed(spots, tmp_path, monkeypatch):
    train(tiny_recipe(spots), tmp_path / "plain")
    train_in_two(tiny_recipe(spots, logger="mlflow"), tmp_path / "run", monkeypatch)
    from mlflow.tracking import MlflowClient

    client = MlflowClient()
    (experiment,) = client.search_experiments(filter_string="name = 'saccade'")
    (run,) = client.search_runs([experiment.experiment_id])
    files = RunFolder(tmp_path / "run")
    assert (run.info.status, run.info.run_name) == ("FINISHED", "run")
    assert files.facts()["tracked_by"] == {"mlflow": run.info.run_id}
    assert run.data.params["model/selection/k"] == "2"
    for name in ("train/loss", "val/accuracy"):
        sent = {point.step: point.value for point in client.get_metric_history(run.info.run_id, name)}
        assert sent == {int(row["step"]): row[name] for row in files.metrics() if name in row}
    assert run.data.metrics["best/test/accuracy"] == files.summaries()["test"]["accuracy"]
    weights, expected = (load_file(tmp_path / name / "best" / "model.safetensors") for name in ("run", "plain"))
    assert all(torch.equal(weights[key], expected[key]) for key in expected)


def test_wandb_goes_on_in_the_same_run(spots, tmp_path, monkeypatch):
    train_in_two(tiny_recipe(spots, logger="wandb"), tmp_path / "run", monkeypatch)
    name = RunFolder(tmp_path / "run").facts()["tracked_by"]["wandb"]
    begun = sorted((tmp_path / "run" / "wandb").glob("offline-run-*"))
    assert len(begun) in (1, 2)  # one folder each, unless they began in the same second
    assert {path.name.rpartition("-")[2] for path in begun} == {name}
    assert all((path / f"run-{name}.wandb").stat().st_size > 1000 for path in begun)


@pytest.mark.parametrize("logger", ["mlflow", "wandb"])
def test_what_is_not_installed_is_asked_for_by_its_extra(spots, tmp_path, monkeypatch, logger, capsys):
    monkeypatch.setitem(extras.EXTRAS, logger, ("nobody_has_this",))
    assert main(["train", str(spots), "--out", str(tmp_path / "run"), "--steps", "1", "--logger", logger]) == 2
    assert f"--logger {logger} needs nobody_has_this: pip install 'saccade[{logger}]'" in capsys.readouterr().err


def test_a_store_that_cannot_be_had_is_told_before_training(spots, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nowhere://store")
    with pytest.raises(ValueError, match=r"^--logger mlflow cannot begin \(.*\): set MLFLOW_TRACKING_URI"):
        train(tiny_recipe(spots, logger="mlflow"), tmp_path / "run")
    assert not RunFolder(tmp_path / "run").metrics()


def test_a_line_that_breaks_later_does_not_stop_the_training(caplog):
    logger = Mock(log_metrics=Mock(side_effect=ConnectionError("gone")))
    tracker = Tracker(logger)
    with caplog.at_level(logging.WARNING, logger="saccade"):
        for step in range(3):
            tracker.add(step, {"loss": math.pi})
    assert logger.log_metrics.call_count == 1
    assert json.dumps([record.getMessage() for record in caplog.records]).count("metrics.csv has all of them") == 1
