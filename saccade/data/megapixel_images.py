"""Megapixel MNIST as picture files, for whatever reads files: training, prediction, `saccade data check`.

The canvases of `megapixel_mnist` with the same seed, drawn beforehand: `{train,val,test}/<index>.png`, and beside each
`<index>.json` with the answers to the tasks that have one class for an answer, and the boxes of the digits:

    {"majority": 3, "max": 8, "top": 3, "boxes": [[left, top, right, bottom], …]}

What draws is imported where it is needed: recognizing and loading a set must not wait for torch.
"""

import io
import json
from pathlib import Path
from typing import Any

from saccade.data.records import SPLITS, DataError, Record, Records

NAME, SETTINGS_FILE = "megapixel-mnist-images", "generator.json"
CLASSES = tuple("0123456789")
TASKS = ("majority", "max", "top")


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
    answers["boxes"] = np.concatenate([left_top, left_top + mnist.DIGIT], axis=1).tolist()
    return dict(zip(paths(index), (picture.getvalue(), json.dumps(answers).encode()), strict=True))


def is_megapixel_images(path: Path) -> bool:
    """Whether `path` was made by this generator."""
    settings = path / SETTINGS_FILE
    return settings.is_file() and json.loads(settings.read_text()).get("generator") == NAME


def load_megapixel_images(root: Path, *, task: str = "majority") -> Records:
    """The canvases of all splits, labeled for one of the tasks."""
    if task not in TASKS:
        raise DataError(f"unknown Megapixel MNIST task {task!r}: choose one of {', '.join(TASKS)}")
    records = []
    for split in SPLITS:
        for description in sorted((root / split).glob("[0-9]*.json")):
            answers = json.loads(description.read_text())
            boxes = tuple(tuple(box) for box in answers["boxes"])
            records.append(Record(description.with_suffix(".png"), str(answers[task]), split, boxes))
    return Records(root, CLASSES, tuple(records))
