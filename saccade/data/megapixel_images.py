"""Megapixel MNIST as picture files, for whatever reads files: training, prediction, `saccade data check`.

The canvases of `megapixel_mnist` with the same seed, drawn beforehand: `{train,val,test}/<index>.png`, and beside each
`<index>.json` with the answers to the four tasks, and the boxes of the digits with what each of them is:

    {"majority": 3, "max": 8, "top": 3, "multi": [0, 3, 8], "boxes": [[left, top, right, bottom], …], "digits": [3, …]}

The task `all` asks all four questions at once.

What draws is imported where it is needed: recognizing and loading a set must not wait for torch.
"""

import io
import json
from pathlib import Path
from typing import Any

from saccade.data.records import SPLITS, DataError, Record, Records
from saccade.tasks.labels import BETWEEN, Question, join_labels

NAME, SETTINGS_FILE = "megapixel-mnist-images", "generator.json"
CLASSES = tuple("0123456789")
TASKS = ("majority", "max", "top", "multi")


def paths(index: int) -> tuple[str, ...]:
    """The files of canvas `index`."""
    from saccade.data.megapixel_mnist import split_of

    return tuple(f"{split_of(index)}/{index:06d}.{suffix}" for suffix in ("png", "json"))


def files(index: int, *, seed: int, size: tuple[int, int], source: Path) -> dict[str, bytes]:
    """Canvas `index` as the bytes of its files."""
    import numpy as np
    from PIL import Image

    from saccade.data import megapixel_mnist as mnist

    record = mnist.draw_canvas(index, seed=seed, size=size, source=Path(source))
    picture = io.BytesIO()
    Image.fromarray(mnist.render(record)).save(picture, "png")
    left_top = record["digit_top_left"][:, ::-1]
    answers: dict[str, Any] = {task: mnist.TASKS[task](record) for task in TASKS}
    answers["multi"] = [digit for digit, there in enumerate(answers["multi"]) if there]
    answers["digits"] = record["digit_class"].tolist()
    answers["boxes"] = np.concatenate([left_top, left_top + mnist.DIGIT], axis=1).tolist()
    return dict(zip(paths(index), (picture.getvalue(), json.dumps(answers).encode()), strict=True))


def is_megapixel_images(path: Path) -> bool:
    """Whether `path` was made by this generator."""
    settings = path / SETTINGS_FILE
    return settings.is_file() and json.loads(settings.read_text()).get("generator") == NAME


def load_megapixel_images(root: Path, *, task: str = "majority") -> Records:
    """The canvases of all splits, labeled for one of the tasks, or for `all` of them."""
    if task not in (*TASKS, "all"):
        raise DataError(f"unknown Megapixel MNIST task {task!r}: choose one of {', '.join(TASKS)}, all")
    records = []
    for split in SPLITS:
        for description in sorted((root / split).glob("[0-9]*.json")):
            answers = json.loads(description.read_text())
            boxes = tuple(tuple(box) for box in answers["boxes"])
            labels = {name: str(answers[name]) for name in ("majority", "max", "top")}
            labels["multi"] = join_labels([str(digit) for digit in answers.get("multi", ())])
            label = BETWEEN.join(labels[name] for name in TASKS) if task == "all" else labels[task]
            kinds = tuple(map(str, answers.get("digits", ()))) if task == "multi" else ()
            records.append(Record(description.with_suffix(".png"), label, split, boxes, kinds=kinds))
    if task in ("multi", "all") and any(
        "multi" not in json.loads(path.read_text()) for path in _descriptions(root)[:1]
    ):
        raise DataError(f"{root}: made by an earlier version, without the answers of {task}: make the set again")
    if task == "all":
        questions = tuple(Question(name, "multi" if name == "multi" else "single", CLASSES) for name in TASKS)
        names = tuple(f"{name}: {digit}" for name in TASKS for digit in CLASSES)
        return Records(root, names, tuple(records), task="questions", questions=questions)
    return Records(root, CLASSES, tuple(records), task="multi" if task == "multi" else "single")


def _descriptions(root: Path) -> list[Path]:
    return sorted(root.glob("*/[0-9]*.json"))
