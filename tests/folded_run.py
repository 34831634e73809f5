"""A run in folds with untrained models, made in seconds: what they say is as good to join as any."""

import csv
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tiny import make_spots, tiny_recipe

from saccade.building import build_model
from saccade.runs import RunFolder
from saccade.training.batches import open_records, open_split
from saccade.training.fold_runs import FoldJob
from saccade.training.phases import Training
from saccade.training.recipe import dump_recipe, load_recipe
from saccade.training.run import evaluate, model_config

COPY = "images/copy.png"


def make_grouped_spots(folder: Path) -> Path:
    """24 images in groups of four, all in folds a, b and c; one of fold b is a copy of one of fold a."""
    data = make_spots(folder, 24)
    with (data / "labels.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    rows = [[*row, f"g{place // 4}", "abc"[place // 4 % 3]] for place, row in enumerate(rows)]
    shutil.copy(data / rows[0][0], data / COPY)
    rows.append([COPY, rows[0][1], "train", rows[0][3], "g1", "b"])
    with (data / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([[*head, "group", "fold"], *rows])
    return data


def write_recipe(folder: Path, data: Path, **changes: Any) -> str:
    """A file with a tiny recipe for `data`."""
    recipe = tiny_recipe(data, training=Training())
    path = folder / "tiny.yaml"
    path.write_text(dump_recipe(replace(recipe, data=replace(recipe.data, **changes))))
    return str(path)


def pretend_to_train(jobs: Sequence[FoldJob], **_: Any) -> list[Any]:
    """Untrained models, different ones, each measured on the test images of its fold."""
    for number, job in enumerate(job for job in jobs if job.state() != "finished"):
        source, *flags = job.command[job.command.index("train") + 1 :]
        recipe = load_recipe(source, [flag for flag in flags if not flag.startswith("--out=")])
        records = open_records(recipe.data, seed=recipe.seed)
        torch.manual_seed(number)
        train = open_split(records, "train", recipe.data, recipe.model.preparation)
        build_model(model_config(recipe, train)).save_pretrained(job.folder / "best")
        (job.folder / "recipe.yaml").write_text(dump_recipe(recipe))
        facts = RunFolder(job.folder).begin(seed=0, parameters=1, phases=[], accelerator="cpu")
        evaluate(job.folder)
        facts.finish()
    return []
