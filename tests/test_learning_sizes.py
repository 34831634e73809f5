"""End to end from image labels: evidence in two sizes, and each is looked at in its own."""

import csv
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_fit import fit
from torchvision.ops import box_iou

from saccade.building import load_model
from saccade.config import Stages
from saccade.images import open_image
from saccade.training.phases import LabelFreeOptions, Training
from saccade.training.recipe import DataOptions, Optimizer, Recipe

SIDE, SMALL, LARGE = 128, 16, 64
FREE, STEPS = 100, 300
PAIRS = ((0, 1), (2, 3), (0, 2), (1, 3))  # corners of a mark, side by side or one above the other


def make_mark(side: int, pair: tuple[int, int]) -> np.ndarray:
    """A gray square of `side` px with stripes in two corners; the fine checks of a large one are gray from afar.

    No corner alone tells whether the two lie side by side: a small patch in a large mark sees one of them. In a large
    patch the stripes of a small mark are gray.
    """
    place = np.arange(side)
    mark = ((place[:, None] + place) % 2).astype(float) if side == LARGE else np.full((side, side), 0.5)
    dot = side // 4
    for corner in pair:
        top, left = (corner // 2) * (side - dot), (corner % 2) * (side - dot)
        mark[top : top + dot, left : left + dot] = np.arange(dot) // (dot // 4) % 2
    return mark


def make_marks(folder: Path, counts: dict[str, int]) -> Path:
    """One mark in each image, in one of two sizes, and its square as its box."""
    rng, rows = np.random.default_rng(0), []
    (folder / "images").mkdir(parents=True)
    for number, split in enumerate(split for split, count in counts.items() for _ in range(count)):
        pixels, side, pair = 0.1 * rng.random((SIDE, SIDE)), (SMALL, LARGE)[number % 2], number // 2 % 4
        x, y = rng.integers(SIDE - side, size=2).tolist()
        pixels[y : y + side, x : x + side] = make_mark(side, PAIRS[pair])
        name = f"images/{number:04d}.png"
        Image.fromarray((255 * pixels).astype(np.uint8)).convert("RGB").save(folder / name)
        rows.append((name, ("beside", "above")[pair // 2], split, f"{x} {y} {x + side} {y + side}"))
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("image", "label", "split", "boxes"), *rows])
    return folder


class Found(NamedTuple):
    """Shares of right answers, and of marks of each size whose box the patch is (IoU)."""

    right: float
    small: float
    large: float


def learn(data: Path, run: Path, sizes: list[int]) -> Found:
    model = Stages(
        view={"scale": 1 / 8},
        scorer={"name": "conv", "pool": 1},
        selection={"name": "perturbed", "k": 1, "sigma": 0.02, "num_samples": 50, "gradient_per_sigma": True},
        extraction={"patch": 20, "sizes": sizes},
        features={"name": "ats", "width": 16},
    )
    recipe = Recipe(
        data=DataOptions(path=str(data), workers=0),
        model=model,
        training=Training("guided_by_scores", LabelFreeOptions(FREE, focus=2.0)),
        optimizer=Optimizer(lr=5e-3, clip_norm=1.0),
        steps=STEPS,
        batch=16,
        validate_every=FREE + STEPS,
        accelerator="cpu",
    )
    fit(recipe, run)
    return look(load_model(run / "best"), data)


@torch.no_grad()
def look(model: Any, data: Path) -> Found:
    with (data / "labels.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["split"] == "test"]
    right: list[bool] = []
    hits: dict[int, list[bool]] = {SMALL: [], LARGE: []}
    for row in rows:
        output = model(open_image(data / row["image"]).view(1.0)[None])
        box = torch.tensor([[int(edge) for edge in row["boxes"].split()]])
        overlap = box_iou(output.boxes[0].float(), box.float())
        hits[int(box[0, 2] - box[0, 0])].append(bool(overlap >= 0.35))
        right.append(model.task.classes[output.logits.argmax()] == row["label"])
    return Found(*(float(np.mean(each)) for each in (right, hits[SMALL], hits[LARGE])))


@pytest.mark.slow
def test_each_mark_is_looked_at_in_its_own_size(tmp_path):
    """With both sizes there is a right one; with one of them half of the marks can at best be guessed."""
    data = make_marks(tmp_path / "data", {"train": 400, "val": 40, "test": 120})
    both = learn(data, tmp_path / "both", [20, 80])
    small = learn(data, tmp_path / "small", [20])
    large = learn(data, tmp_path / "large", [80])
    print(both, small, large)
    assert both.right > 0.9
    assert min(both.small, both.large) > 0.8
    assert (small.large, large.small) == (0, 0)
    assert max(small.right, large.right) < both.right - 0.05
