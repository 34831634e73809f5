"""What the contestants of `rival_pipelines.py` share: a fold of a table, how images are read, and what is measured."""

import csv
from pathlib import Path
from typing import Any, NamedTuple

NETWORK = "tf_efficientnet_lite0"


class Job(NamedTuple):
    """A contestant and a fold: images to learn from and to test, each with whether it shows the rarer class."""

    data: Path
    weights: Path
    fold: str
    out: Path
    run: Path
    learn: list[tuple[Path, bool]]
    test: list[tuple[Path, bool]]
    learn_folds: list[str]


def rows_of(data: Path) -> list[dict[str, str]]:
    with (data / "labels.csv").open() as table:
        return list(csv.DictReader(table))


def make_job(data: Path, weights: Path, fold: str, out: Path, run: Path) -> Job:
    positive, rows = rarer_class(data), rows_of(data)
    parts: tuple[list[tuple[Path, bool]], list[tuple[Path, bool]]] = [], []
    for row in rows:
        parts[row["fold"] == fold].append((next(data.rglob(row["image"])), row["label"] == positive))
    return Job(data, weights, fold, out, run, *parts, [row["fold"] for row in rows if row["fold"] != fold])


def rarer_class(data: Path) -> str:
    labels = [row["label"] for row in rows_of(data)]
    return min({*labels}, key=labels.count)


def read_image(path: Path, size: tuple[int, int] | None = None) -> Any:
    """1 3 H W, as the network's weights want it; of `size` (height, width)."""
    import numpy as np
    import torch
    from PIL import Image

    image = Image.open(path).convert("RGB")
    image = image.resize((size[1], size[0]), Image.Resampling.BILINEAR) if size else image
    return (torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float() / 255 - 0.5) / 0.5


def numbers(scores: list[float], there: list[bool]) -> dict[str, float]:
    import torch
    from torchmetrics.functional.classification import binary_auroc, binary_average_precision

    told, target = torch.tensor(scores).double().argsort().argsort() / len(scores), torch.tensor(there).long()
    return {"ap": float(binary_average_precision(told, target)), "auroc": float(binary_auroc(told, target))}
