"""Every row of the paper at its full size, for three steps: images, views, patches and networks as in the paper.

Only the batch is cut, to two, so that it fits two cores and their memory; the data is a handful of noise images in the
published layout. Without weights: networks start at random. About five minutes on two cores.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_fit import fit, make_parts

from saccade.reproduce.jobs import run_name
from saccade.reproduce.paper_tables import TABLES
from saccade.reproduce.table_types import Plan
from saccade.runs import RunFolder
from saccade.training.recipe import load_recipe

BIRDS = 8  # each has an image to validate with, and one validation is enough
PLANS = sorted({row.full._replace(selection=None) for table in TABLES.values() for row in table.rows if row.full})


def noise(path: Path, size: tuple[int, int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(len(path.name))
    coarse = Image.fromarray(rng.integers(0, 256, (size[0] // 8, size[1] // 8, 3), dtype=np.uint8))
    coarse.resize((size[1], size[0])).save(path)


def make_swedish(root: Path) -> None:
    signs = {
        "EMPTY": "",
        **{f"{limit}": f"VISIBLE, 60, 60, 40, 30, PROHIBITORY, {limit}_SIGN;" for limit in (50, 70, 80)},
    }
    for part in ("Set1Part0", "Set2Part0"):
        names = [(f"{label}_{copy}.jpg", text) for label, text in signs.items() for copy in range(2)]
        for name, _ in names:
            noise(root / part / name, (960, 1280))
        (root / part / "annotations.txt").write_text("".join(f"{name}:{text}\n" for name, text in names))


def make_billiard(root: Path) -> None:
    for folder, count in {"train": 9, "valid": 2, "test": 2}.items():
        for number in range(count):
            noise(root / folder / f"{number}.png", (1000, 1000))
            balls = [{"position": [0.0, 0.0], "number": number + 1, "color": "red"}]
            (root / folder / f"{number}.json").write_text(json.dumps(balls))


def make_cub(root: Path) -> None:
    images = [(bird, copy) for bird in range(1, BIRDS + 1) for copy in range(4)]
    for bird, copy in images:
        path = root / "images" / f"{bird:03d}.Bird" / f"{copy}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (500, 375), (20 * bird, 60 * copy, 99)).save(path)
    columns = {
        "images.txt": [f"{bird:03d}.Bird/{copy}.jpg" for bird, copy in images],
        "image_class_labels.txt": [str(bird) for bird, _ in images],
        "train_test_split.txt": ["0" if copy == 3 else "1" for _, copy in images],
        "bounding_boxes.txt": ["10 10 200 200"] * len(images),
    }
    for name, values in columns.items():
        (root / name).write_text("".join(f"{place} {value}\n" for place, value in enumerate(values, start=1)))
    (root / "classes.txt").write_text("".join(f"{bird} {bird:03d}.Bird\n" for bird in range(1, BIRDS + 1)))


MAKERS = {"traffic": make_swedish, "billiard": make_billiard, "cub": make_cub}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("full")
    for name, make in MAKERS.items():
        make(root / name)
    return {name: root / name for name in MAKERS}


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS, ids=run_name)
def test_three_steps_at_full_size(plan: Plan, data, tmp_path):
    name = plan.recipe.partition("/")[0]
    less = ["--steps=3", "--batch=2", "--validate_every=9", "--data.workers=0", "--accelerator=cpu"]
    recipe = load_recipe(plan.recipe, [*plan.flags, f"--data.path={data[name]}", *less])
    before = [*make_parts(recipe)[0].model.parameters()]
    now = [*fit(recipe, tmp_path).model.parameters()]
    validated = RunFolder(tmp_path).metrics()[-1]
    assert validated["step"] == 3
    assert 0 <= validated["val/accuracy"] <= 1
    assert all(parameter.isfinite().all() for parameter in now)
    assert any(not torch.equal(old, new) for old, new in zip(before, now, strict=True))
