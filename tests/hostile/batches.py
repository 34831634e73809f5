"""Whatever may lie in a folder, through the commands that read folders: `predict`, `data check`, `train --skip-bad`."""

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image

from saccade import ModelConfig, PatchSelectionModel
from saccade.files import shown
from saccade.predict.image_paths import find_images
from saccade.preparation import Preparation
from saccade.training.recipe import dump_recipe
from tests.hostile.mutations import write_mutations
from tests.tiny import tiny_recipe

EVIL = "evil\x1b[2J\nname.jpg"
CLASSES = ("cat", "dog\x9b2J")
SOUND = 12  # images of each class


class Ended(NamedTuple):
    """How a command ended: its exit code, and all it printed."""

    code: int
    printed: str


Run = Callable[[Sequence[str]], Ended]


def write_odd_names(folder: Path) -> list[str]:
    """Names that terminals obey, and what is no file; those that cannot be read, as they are shown."""
    os.mkfifo(folder / "pipe.jpg")
    (folder / "zero.jpg").symlink_to("/dev/zero")
    (folder / "gone.jpg").symlink_to(folder / "nowhere.jpg")
    (folder / "circle.jpg").symlink_to(folder / "circle.jpg")
    (folder / EVIL).write_text("no image")
    (folder / os.fsdecode(b"latin\xe9.jpg")).write_text("no image")
    (folder / "folder.jpg").mkdir()
    return ["pipe.jpg", "zero.jpg", "gone.jpg", "circle.jpg", r"evil\x1b[2J\nname.jpg", r"latin\udce9.jpg"]


def write_set(folder: Path, count: int, seed: int) -> Path:
    """Two classes of sound images, and in one of them `count` damaged ones and all odd names."""
    for number, label in enumerate(CLASSES):
        (folder / label).mkdir(parents=True)
        for image in range(SOUND):
            pixels = np.random.default_rng([number, image]).integers(0, 256, (64, 64, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / label / f"{image}.png")
    write_odd_names(folder / CLASSES[0])
    write_mutations(folder / CLASSES[0], count, first_seed=seed)
    return folder


def write_model(folder: Path) -> Path:
    """An untrained model: what it says is of no interest here."""
    recipe = tiny_recipe(folder)
    torch.manual_seed(0)
    stages = {name: getattr(recipe.model, name) for name in ("view", "scorer", "selection", "extraction", "features")}
    config = ModelConfig(num_classes=2, image_size=(64, 64), classes=CLASSES, **stages)
    PatchSelectionModel.from_config(config).save_pretrained(folder)
    return folder


def _predict(images: Path, work: Path, run: Run) -> str | None:
    out = work / "answers.jsonl"
    ended = run(["predict", str(write_model(work / "model")), str(images), "--out", str(out), "--workers", "2"])
    lines = [json.loads(line) for line in out.read_bytes().decode(errors="surrogateescape").splitlines()]
    if [line["image"] for line in lines] != list(find_images([str(images)])):
        return f"{len(lines)} lines for other images: {ended}"
    if sum("error" not in line for line in lines) < 2 * SOUND:
        return f"sound images failed: {ended}"
    return _unfit(ended, 1)


def _check(images: Path, work: Path, run: Run) -> str | None:
    ended = run(["data", "check", str(images)])
    named = re.findall(r"^unreadable: (.*?\.[a-z0-9]+): .", ended.printed, re.MULTILINE)
    told = re.search(r"(\d+) unreadable", ended.printed.splitlines()[-1])
    known = {shown(path) for path in find_images([str(images)])}
    if told is None or len(named) != int(told[1]) or not set(named) <= known:
        return f"files without their names: {ended}"
    return _unfit(ended, 1)


def _train(images: Path, work: Path, run: Run) -> str | None:
    recipe = tiny_recipe(images, steps=2, validate_every=2)
    # A damaged header may tell of any size, and images of a batch are padded to the largest.
    recipe = replace(recipe, model=replace(recipe.model, preparation=Preparation(resize=(64, 64))))
    (work / "recipe.yaml").write_text(dump_recipe(recipe))
    ended = run(["train", str(work / "recipe.yaml"), "--skip-bad", "true", "--out", str(work / "run")])
    return _unfit(ended, 0)


def _unfit(ended: Ended, code: int) -> str | None:
    if ended.code != code:
        return f"exit code {ended.code}, expected {code}: {ended.printed}"
    obeyed = sorted(set(re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", ended.printed)) - {"\r"})
    return f"printed {obeyed}, which terminals obey: {ended.printed}" if obeyed else None


# Each a function of the images, a folder to work in, and how to run a command: what is wrong with how it took them.
COMMANDS: dict[str, Callable[[Path, Path, Run], str | None]] = {"predict": _predict, "check": _check, "train": _train}
