"""A data set and a recipe small enough to train in a test: finely striped spots, along x or along y, on dark noise."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from saccade.config import Stages
from saccade.training.phases import LabelFreeOptions, Training
from saccade.training.recipe import DataOptions, Recipe

SIDE, SPOT = 64, 12


def make_spots(folder: Path, count: int = 60, *, sizes: tuple[int, ...] = (SIDE,)) -> Path:
    """`labels.csv` with boxes, classes "across" and "along", images of `sizes` in turn."""
    rng = np.random.default_rng(0)
    stripes = np.broadcast_to((np.arange(SPOT) % 2 * 255).astype(np.uint8), (SPOT, SPOT))
    (folder / "images").mkdir(parents=True)
    rows = []
    for number in range(count):
        side, along = sizes[number % len(sizes)], number % 2
        pixels = rng.integers(0, 25, (side, side, 3), dtype=np.uint8)
        x, y = rng.integers(side - SPOT, size=2).tolist()
        pixels[y : y + SPOT, x : x + SPOT] = (stripes.T if along else stripes)[..., None]
        name = f"images/{number:03d}.png"
        Image.fromarray(pixels).save(folder / name)
        split = ("train", "train", "train", "val", "test")[number // 2 % 5]
        rows.append((name, ("across", "along")[along], split, f"{x} {y} {x + SPOT} {y + SPOT}"))
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("image", "label", "split", "boxes"), *rows])
    return folder


def tiny_recipe(data: Path, **changes: Any) -> Recipe:
    """Four steps without labels and twelve with them, validated every five."""
    stages = Stages(
        view={"scale": 0.25},
        scorer={"name": "conv", "widths": [4], "pool": 2},
        selection={"name": "perturbed", "k": 2, "num_samples": 20},
        extraction={"patch": 20},
        features={"name": "ats", "width": 8},
    )
    options = DataOptions(path=str(data), workers=0, augmentation={"name": "shift_and_light", "max_px": 2})
    recipe = Recipe(
        data=options,
        model=stages,
        training=Training(label_free=LabelFreeOptions(steps=4)),
        steps=12,
        batch=4,
        validate_every=5,
        accelerator="cpu",
    )
    return replace(recipe, **changes)
