"""Megapixel MNIST as pictures: the canvases and answers of the sparse form, found and loaded as any set of files."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from saccade.data import ImageDataset, load
from saccade.data.generate import make
from saccade.data.megapixel_mnist import MegapixelMNIST
from saccade.data.records import DataError

COUNT, SIZE = 36, (160, 200)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("idx")
    rng = np.random.default_rng(0)
    for name, count in (("train", 5300), ("t10k", 200)):
        for kind, values in (
            ("images-idx3", rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)),
            ("labels-idx1", (np.arange(count) % 10).astype(np.uint8)),
        ):
            header = bytes([0, 0, 8, values.ndim]) + b"".join(side.to_bytes(4, "big") for side in values.shape)
            (folder / f"{name}-{kind}-ubyte.gz").write_bytes(gzip.compress(header + values.tobytes(), 1))
    return folder


@pytest.fixture(scope="module")
def folders(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root, settings = tmp_path_factory.mktemp("sets"), {"count": COUNT, "size": SIZE, "seed": 5, "source": source}
    return {
        name: make(name, root / name, workers=1, **settings) for name in ("megapixel-mnist", "megapixel-mnist-images")
    }


@pytest.mark.parametrize("task", ["majority", "max", "top", "multi"])
@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_pictures_answers_and_boxes_are_those_of_the_sparse_form(folders, split, task):
    sparse = MegapixelMNIST(folders["megapixel-mnist"], split, task=task)
    pictures = ImageDataset(load(folders["megapixel-mnist-images"], task=task).split(split))
    assert len(pictures) == len(sparse) > 0
    for one, other in ((pictures[index], sparse[index]) for index in range(len(sparse))):
        assert torch.equal(one.image, other.image)
        assert one.label == other.label
        assert torch.equal(one.boxes, other.boxes)


def test_other_tasks_are_refused(folders):
    with pytest.raises(DataError, match="choose one of majority, max, top, multi, all"):
        load(folders["megapixel-mnist-images"], task="median")


def test_all_four_questions_are_asked_at_once(folders):
    """And with the question which digits are there, boxes say which digit they show."""
    every = load(folders["megapixel-mnist-images"], task="all")
    alone = {task: load(folders["megapixel-mnist-images"], task=task) for task in ("majority", "max", "top", "multi")}
    assert [(question.name, question.task) for question in every.questions] == [
        (task, "multi" if task == "multi" else "single") for task in alone
    ]
    for record, *each in zip(every.records, *(records.records for records in alone.values()), strict=True):
        assert record.label.split(" | ") == [one.label for one in each]
        assert set(each[-1].kinds) == set(each[-1].label.split(";"))


def test_a_finished_set_is_only_read(folders, source):
    folder = folders["megapixel-mnist-images"]
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    make("megapixel-mnist-images", folder, count=COUNT, size=SIZE, seed=5, source=source, workers=1)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
