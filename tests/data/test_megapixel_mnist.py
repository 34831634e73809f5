"""Megapixel MNIST: ATS's recipe holds on every canvas, and labels follow from it."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from saccade.data.dataset import collate
from saccade.data.generate import make
from saccade.data.megapixel_mnist import (
    DIGIT,
    RECORD,
    TASKS,
    MegapixelMNIST,
    draw_canvas,
    files,
    read_idx,
    render,
    split_of,
    target_of,
)
from saccade.data.records import DataError

SIZE = (300, 420)


def write_idx(path: Path, values: np.ndarray) -> None:
    header = bytes([0, 0, 8, values.ndim]) + b"".join(side.to_bytes(4, "big") for side in values.shape)
    path.write_bytes(gzip.compress(header + values.tobytes(), 1))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four idx files in which a digit's first pixel is its class + 1 and its second tells where it comes from."""
    folder = tmp_path_factory.mktemp("idx")
    rng = np.random.default_rng(0)
    for name, count in (("train", 5300), ("t10k", 200)):
        classes = rng.integers(0, 10, count).astype(np.uint8)
        images = np.zeros((count, DIGIT, DIGIT), np.uint8)
        images[:, 4:24, 4:24] = rng.integers(1, 256, (count, 20, 20))
        images[:, 0, 0] = classes + 1
        images[:, 0, 1] = 3 if name == "t10k" else np.where(np.arange(count) < count - 5000, 1, 2)
        write_idx(folder / f"{name}-images-idx3-ubyte.gz", images)
        write_idx(folder / f"{name}-labels-idx1-ubyte.gz", classes)
    return folder


@pytest.mark.parametrize("index", range(24))
def test_every_canvas_follows_the_recipe(index: int, source: Path):
    record = draw_canvas(index, seed=2, size=SIZE, source=source)
    target = target_of(index, seed=2)
    counts = np.bincount(record["digit_class"], minlength=10)
    assert counts[target] == 3
    assert counts.sum() == 5
    assert (record["digit"][:, 0, 0] == record["digit_class"] + 1).all()
    corners = record["digit_top_left"]
    apart = np.abs(corners[:, None] - corners).max(-1)
    assert (apart + DIGIT * np.eye(5) >= DIGIT).all()
    assert len(set(corners[:, 0].tolist())) == 5
    everything, clean = render(record), render(record, noise=False)
    for digit, (top, left) in zip(record["digit"], corners, strict=True):
        place = np.s_[top : top + DIGIT, left : left + DIGIT]
        np.testing.assert_array_equal(everything[place], clean[place])
        np.testing.assert_array_equal(clean[place], digit)
    noise = everything - clean
    assert set(np.unique(noise)) == {0, 255}
    assert 50 * 15 < (noise > 0).sum() <= 50 * 56  # strokes may cross, a few pixels are shared


def test_a_stroke_is_a_straight_line_of_28_or_more_pixels_across_its_square(source: Path):
    bits = np.unpackbits(draw_canvas(0, seed=0, size=SIZE, source=source)["stroke"], axis=1).reshape(50, DIGIT, DIGIT)
    for stroke in bits:
        rows, columns = np.nonzero(stroke)
        assert max(np.ptp(rows), np.ptp(columns)) == DIGIT - 1
        assert DIGIT <= len(rows) <= 56
        centered = np.stack([rows, columns]) - (DIGIT - 1) / 2
        assert np.linalg.svd(centered, compute_uv=False)[1] / np.sqrt(len(rows)) < 0.5  # off the line, in pixels


def test_splits_use_digits_of_their_own(source: Path):
    origin = {"train": 1, "val": 2, "test": 3}
    for index in range(12):
        record = draw_canvas(index, seed=0, size=SIZE, source=source)
        assert (record["digit"][:, 0, 1] == origin[split_of(index)]).all()


def test_targets_are_balanced_in_every_split():
    seen = {
        split: [target_of(k, seed=1) for k in range(120) if split_of(k) == split] for split in ("train", "val", "test")
    }
    assert {split: np.bincount(targets).tolist() for split, targets in seen.items()} == {
        "train": [9] * 10,
        "val": [1] * 10,
        "test": [2] * 10,
    }


def test_labels_of_a_canvas_written_by_hand():
    record = np.zeros((), RECORD)
    record["digit_class"] = [4, 4, 4, 9, 0]
    record["digit_top_left"] = [(50, 0), (90, 0), (130, 0), (170, 0), (10, 0)]
    assert {task: label(record) for task, label in TASKS.items()} == {
        "majority": 4,
        "max": 9,
        "top": 0,
        "multi": (1, 0, 0, 0, 1, 0, 0, 0, 0, 1),
    }


@pytest.mark.parametrize("size", [SIZE, (1500, 1500), (4000, 4000)])
def test_five_thousand_canvases_of_any_size_fit_into_200_mb(size: tuple[int, int], source: Path):
    largest = max(len(content) for k in range(12) for content in files(k, seed=0, size=size, source=source).values())
    assert -(-largest // 4096) * 4096 * 5000 < 200e6  # in whole blocks of a file system


def test_the_data_set_gives_samples_that_batch(source: Path, tmp_path: Path):
    make("megapixel-mnist", tmp_path, count=24, size=SIZE, seed=2, workers=1, source=source)
    splits = {split: MegapixelMNIST(tmp_path, split) for split in ("train", "val", "test")}
    assert {split: len(data) for split, data in splits.items()} == {"train": 18, "val": 2, "test": 4}
    trains = [k for k in range(24) if split_of(k) == "train"]
    for sample in splits["train"]:
        record = draw_canvas(trains[sample.index], seed=2, size=SIZE, source=source)
        assert sample.label == target_of(trains[sample.index], seed=2)
        np.testing.assert_array_equal(sample.image.numpy(), np.stack([render(record)] * 3))
        for (left, top, right, bottom), digit in zip(sample.boxes.tolist(), record["digit"], strict=True):
            inside = sample.image[0, top:bottom, left:right]
            assert torch.equal(inside, torch.from_numpy(digit))
    multi = MegapixelMNIST(tmp_path, "train", task="multi")
    batch = next(iter(DataLoader(multi, batch_size=4, collate_fn=collate)))
    assert batch.label.tolist() == [list(TASKS["multi"](multi.record(k))) for k in range(4)]  # type: ignore[arg-type]


def test_an_unfinished_folder_is_refused(source: Path, tmp_path: Path):
    make("megapixel-mnist", tmp_path, count=12, size=SIZE, workers=1, source=source)
    (tmp_path / "train/000003.npy").unlink()
    with pytest.raises(DataError, match="8 of 9 train canvases"):
        MegapixelMNIST(tmp_path, "train")
    with pytest.raises(DataError, match=r"no generator\.json"):
        MegapixelMNIST(tmp_path / "train", "train")


@pytest.mark.parametrize("size", [(20, 500), (60, 60)])
def test_a_canvas_too_small_is_refused(size: tuple[int, int], source: Path):
    with pytest.raises(DataError, match="ask for a larger one"):
        draw_canvas(0, seed=0, size=size, source=source)


def test_broken_sources_are_named(tmp_path: Path):
    broken = tmp_path / "train-images-idx3-ubyte.gz"
    with pytest.raises(DataError, match="no such file"):
        read_idx(broken)
    broken.write_bytes(b"no gzip")
    with pytest.raises(DataError, match="not a whole gzip file"):
        read_idx(broken)
    broken.write_bytes(gzip.compress(b"\0\0\x0d\x01\0\0\0\0"))
    with pytest.raises(DataError, match="starts with 0, 0, 8"):
        read_idx(broken)


def test_the_real_mnist_files_are_read(shared_data: Path):
    images = read_idx(shared_data / "mnist/train-images-idx3-ubyte.gz")
    labels = read_idx(shared_data / "mnist/train-labels-idx1-ubyte.gz")
    assert images.shape == (60_000, 28, 28)
    assert labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert np.bincount(labels).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    np.testing.assert_allclose(images.mean() / 255, 0.1307, atol=5e-5)
