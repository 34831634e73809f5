"""A run folder as training leaves it, made in a second: an untrained model, real predictions, invented curves."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import make_spots, tiny_recipe

from saccade.config import ModelConfig
from saccade.data import ImageDataset, collate, load
from saccade.evaluation import measure, predict_batch
from saccade.evaluation.tabulate import tabulate
from saccade.images import unit_range
from saccade.looking import look_at_slots
from saccade.model import PatchSelectionModel
from saccade.runs import RunFolder
from saccade.runs.step_tables import TrainingWarning
from saccade.runs.training_panels import Panel
from saccade.training.recipe import dump_recipe

CLASSES = ("across", "along")


@pytest.fixture(scope="session")
def made_run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "spots"
    records = load(make_spots(tmp_path_factory.mktemp("data") / "spots"))
    recipe = tiny_recipe(records.root)
    torch.manual_seed(0)
    config = ModelConfig(**vars(recipe.model), num_classes=2, image_size=(64, 64), classes=CLASSES)
    model = PatchSelectionModel.from_config(config).eval()
    files = RunFolder(folder)
    model.save_pretrained(files.best)
    files.claim(dump_recipe(recipe))
    metrics = files.open_metrics()
    for row in invented_metrics():
        metrics.add(row.pop("step"), row)
    metrics.save()
    files.open_warnings().add(TrainingWarning(10, "one_class", "It says <along> & nothing else."))
    phases = [{"name": "label_free", "from": 0, "to": 4}, {"name": "labels", "from": 4, "to": 16}]
    facts = files.begin(seed=0, parameters=1234, phases=phases, accelerator="cpu")
    facts.known |= {"seconds_of_training": 90.0, "hardware": "a core"}
    facts.finish()
    write_evaluation(files, model, ImageDataset(records.split("test")))
    for step, sigma in ((4, 0.05), (10, 0.025), (16, 0.0)):
        files.write_panel(make_panel(model, ImageDataset(records.split("val")), step, sigma))
    return folder


@pytest.fixture
def run_folder(made_run, tmp_path) -> Path:
    """A copy that a test may change."""
    return shutil.copytree(made_run, tmp_path / "spots")


def invented_metrics() -> list[dict]:
    rows: list[dict] = [{"step": step, "train/loss": 1 / (1 + step)} for step in range(16)]
    for row in rows[4:]:
        row |= {"train/accuracy": row["step"] / 16, "sigma": 0.05 * (1 - (row["step"] - 4) / 12)}
    validated = [
        {"step": step, "val/accuracy": step / 20, "val/loss": 0.5, "val/hit_rate": 0.25} for step in (5, 10, 16)
    ]
    return sorted(rows + validated, key=lambda row: row["step"])


def write_evaluation(folder: RunFolder, model: PatchSelectionModel, data: ImageDataset) -> None:
    predictions = predict_batch(model, collate([data[i] for i in range(len(data))]))
    pixels = {"image": 64 * 64, "view": 16 * 16, "patches": 2 * 20 * 20}
    summary = {"split": "test", "images": len(data), **measure(predictions), "milliseconds_per_image": 1.5}
    folder.write_evaluation("test", tabulate(predictions, data.records), {**summary, "pixels": pixels})


@torch.no_grad()
def make_panel(model: Any, data: ImageDataset, step: int, sigma: float) -> Panel:
    model.selection.train().sigma = sigma
    looks = []
    for image in (data[0].image, data[1].image):
        pixels = unit_range(image[None])
        look = look_at_slots(model(pixels), size=(64, 64), seen=pixels)
        looks.append(look._replace(picture=image.permute(1, 2, 0).numpy()))
    model.eval()
    return Panel(step, (step - 4) / 12, sigma, tuple(looks))
