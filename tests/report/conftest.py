"""A run folder as training leaves it, made in a second: an untrained model, real predictions, invented curves."""

import csv
import json
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from tiny import make_spots, tiny_recipe

from saccade.config import ModelConfig
from saccade.data import ImageDataset, collate, load, unit_range
from saccade.evaluation import measure, predict_batch
from saccade.model import PatchSelectionModel

CLASSES = ("across", "along")


@pytest.fixture(scope="session")
def made_run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "spots"
    records = load(make_spots(tmp_path_factory.mktemp("data") / "spots"))
    recipe = tiny_recipe(records.root)
    torch.manual_seed(0)
    config = ModelConfig(**vars(recipe.model), num_classes=2, image_size=(64, 64), classes=CLASSES)
    model = PatchSelectionModel.from_config(config).eval()
    model.save_pretrained(folder / "best")
    write_yaml(folder / "recipe.yaml", asdict(recipe))
    write_table(folder / "metrics.csv", invented_metrics())
    write_table(
        folder / "warnings.csv", [{"step": 10, "kind": "one_class", "message": "It says <along> & nothing else."}]
    )
    facts = {
        "seed": 0,
        "parameters": 1234,
        "seconds_of_training": 90.0,
        "versions": {"torch": "2"},
        "hardware": "a core",
    }
    (folder / "run.json").write_text(json.dumps(facts))
    write_evaluation(folder, model, ImageDataset(records.split("test")))
    for step, sigma in ((4, 0.05), (10, 0.025), (16, 0.0)):
        write_panel(folder, model, ImageDataset(records.split("val")), step, sigma)
    return folder


@pytest.fixture
def run_folder(made_run, tmp_path) -> Path:
    """A copy that a test may change."""
    return shutil.copytree(made_run, tmp_path / "spots")


def write_yaml(path: Path, tree: dict) -> None:
    path.write_text(yaml.safe_dump(json.loads(json.dumps(tree))))


def write_table(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(exist_ok=True, parents=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
        writer.writeheader()
        writer.writerows(rows)


def invented_metrics() -> list[dict]:
    rows: list[dict] = [{"step": step, "train/loss": 1 / (1 + step)} for step in range(16)]
    for row in rows[4:]:
        row |= {"train/accuracy": row["step"] / 16, "sigma": 0.05 * (1 - (row["step"] - 4) / 12)}
    validated = [
        {"step": step, "val/accuracy": step / 20, "val/loss": 0.5, "val/hit_rate": 0.25} for step in (5, 10, 16)
    ]
    return sorted(rows + validated, key=lambda row: row["step"])


def write_evaluation(folder: Path, model: PatchSelectionModel, data: ImageDataset) -> None:
    predictions = predict_batch(model, collate([data[i] for i in range(len(data))]))
    rows = []
    for place, p in enumerate(predictions.logits.softmax(dim=1).tolist()):
        record = data.records.records[place]
        row = {
            "image": record.image,
            "label": record.label,
            "predicted": CLASSES[p.index(max(p))],
            "confidence": max(p),
        }
        row |= {name: float(getattr(predictions, name)[place]) for name in ("hit", "overlap", "entropy")}
        rows.append(row | {f"p:{name}": share for name, share in zip(CLASSES, p, strict=True)})
    write_table(folder / "evaluation" / "test.csv", rows)
    pixels = {"image": 64 * 64, "view": 16 * 16, "patches": 2 * 20 * 20}
    summary = {
        "split": "test",
        "images": len(rows),
        **measure(predictions),
        "milliseconds_per_image": 1.5,
        "pixels": pixels,
    }
    (folder / "evaluation" / "test.json").write_text(json.dumps(summary))


@torch.no_grad()
def write_panel(folder: Path, model: PatchSelectionModel, data: ImageDataset, step: int, sigma: float) -> None:
    values: dict = {"step": step, "main_step": step - 4, "sigma": sigma, "index": [0, 1], "label": [0, 1]}
    model.selection.train().sigma = sigma
    for v in (0, 1):
        image = data[v].image
        output, grid = model(unit_range(image[None])), model.grid((64, 64))
        patches = model.extraction(unit_range(image[None]), output.selection, grid)[0]
        values |= {
            f"image_{v}": image.permute(1, 2, 0).numpy(),
            f"size_{v}": image.shape[-2:],
            f"scores_{v}": output.scores[0].reshape(grid.shape).numpy(),
            f"patches_{v}": (255 * patches.permute(0, 2, 3, 1)).round().byte().numpy(),
            f"boxes_{v}": output.boxes[0].numpy(),
            f"weight_{v}": output.selection.weight[0].numpy(),
        }
    model.eval()
    (folder / "panels").mkdir(exist_ok=True)
    np.savez(folder / "panels" / f"{step:07d}.npz", **values)
