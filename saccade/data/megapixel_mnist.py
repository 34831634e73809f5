"""Megapixel MNIST: five handwritten digits and fifty strokes of noise on a large black canvas (the recipe of ATS).

Three digits are of the target class and two of others; no two of the five overlap, no stroke touches a digit, and no
two digits have the same top row. A stroke is a straight line of random slope, 56 points on 28×28 pixels. Four questions
on the same canvas:

    majority   the class of the three            top     the class of the topmost digit
    max        the largest digit                 multi   which of the ten digits are there, ten times 0 or 1

On disk a canvas is its digits' pixels, its strokes' bits and where they lie: `{train,val,test}/<index>.npy`, 9 KB at
any canvas size; `render` draws it when asked. Test canvases use MNIST's test digits; of MNIST's training digits the
last 5000 are kept for val canvases. Of 12 canvases 9 are train, 1 val and 2 test: 6000 are ATS's 5000, with the
validation split it lacks, and 1000.
"""

import gzip
import io
import json
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import UInt8
from numpy import ndarray
from torch.utils.data import Dataset

from saccade.data.generate import SETTINGS_FILE
from saccade.data.records import SPLITS, DataError
from saccade.data.sample import Sample

SIZE = (1500, 1500)
CLASSES = tuple("0123456789")
DIGIT, DIGITS, TARGETS, STROKES, STROKE_POINTS = 28, 5, 3, 50, 56
RECORD = np.dtype(
    [
        ("canvas", "<i4", (2,)),  # height, width
        ("digit", "u1", (DIGITS, DIGIT, DIGIT)),
        ("digit_class", "u1", (DIGITS,)),
        ("digit_top_left", "<i4", (DIGITS, 2)),
        ("stroke", "u1", (STROKES, DIGIT * DIGIT // 8)),  # bits
        ("stroke_top_left", "<i4", (STROKES, 2)),
    ]
)
_CYCLE = ("train", "test", "val", "train", "train", "train", "train", "train", "test", "train", "train", "train")
_VAL_DIGITS = 5000


class Pool(NamedTuple):
    """The digits of one split and, per class, where they are."""

    images: UInt8[ndarray, "n 28 28"]
    by_class: tuple[ndarray, ...]


def read_idx(path: Path) -> UInt8[ndarray, "..."]:
    """The bytes in a gzipped idx file: 0, 0, type 8, number of axes, each axis' length in 4 bytes, then the data."""
    try:
        content = gzip.decompress(path.read_bytes())
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; `source` must be the folder of MNIST's four .gz files") from None
    except (OSError, EOFError) as error:
        raise DataError(f"{path}: not a whole gzip file ({error}); get it again") from None
    if content[:3] != b"\0\0\x08":
        raise DataError(f"{path}: an idx file of bytes starts with 0, 0, 8, this one with {list(content[:3])}")
    shape = np.frombuffer(content, ">i4", content[3], offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(shape)


@lru_cache(maxsize=4)
def digit_pool(source: Path, split: str) -> Pool:
    """MNIST's digits for the canvases of one split."""
    name = "t10k" if split == "test" else "train"
    images = read_idx(source / f"{name}-images-idx3-ubyte.gz")
    classes = read_idx(source / f"{name}-labels-idx1-ubyte.gz")
    part = {"train": slice(None, -_VAL_DIGITS), "val": slice(-_VAL_DIGITS, None), "test": slice(None)}[split]
    return Pool(images[part], tuple(np.flatnonzero(classes[part] == k) for k in range(10)))


def split_of(index: int) -> str:
    """The split of canvas `index`, whatever the number of canvases."""
    return _CYCLE[index % len(_CYCLE)]


def target_of(index: int, *, seed: int) -> int:
    """The class of the three: ten consecutive canvases of a split have ten different targets."""
    split = split_of(index)
    rounds, place = divmod(index, len(_CYCLE))
    rank = rounds * _CYCLE.count(split) + _CYCLE[:place].count(split)
    order = np.random.default_rng((seed, rank // 10, SPLITS.index(split))).permutation(10)
    return int(order[rank % 10])


def draw_canvas(index: int, *, seed: int, size: tuple[int, int] = SIZE, source: Path) -> ndarray:
    """Canvas `index` as a `RECORD`."""
    rng = np.random.default_rng((seed, index))
    pool = digit_pool(source, split_of(index))
    target = target_of(index, seed=seed)
    others = (target + rng.integers(1, 10, DIGITS - TARGETS)) % 10
    record = np.zeros((), RECORD)
    record["canvas"] = size
    record["digit_class"] = [target] * TARGETS + others.tolist()
    record["digit"] = [pool.images[rng.choice(pool.by_class[k])] for k in record["digit_class"]]
    record["digit_top_left"] = _place_digits(rng, size)
    record["stroke"] = [_stroke(angle) for angle in rng.uniform(0, np.pi, STROKES)]
    record["stroke_top_left"] = _place_strokes(rng, size, record["digit_top_left"])
    return record


def _place_digits(rng: np.random.Generator, size: tuple[int, int]) -> ndarray:
    for _ in range(1000):
        corners = _corners(rng, size, DIGITS)
        overlap = (np.abs(corners[:, None] - corners) < DIGIT).all(-1)
        if overlap.sum() == DIGITS and len(set(corners[:, 0].tolist())) == DIGITS:
            return corners
    raise DataError(
        f"{DIGITS} digits of {DIGIT} px find no place on a canvas of {size[0]}×{size[1]} px: ask for a larger one"
    )


def _place_strokes(rng: np.random.Generator, size: tuple[int, int], digits: ndarray) -> ndarray:
    kept = np.empty((0, 2), int)
    for _ in range(1000):
        corners = _corners(rng, size, STROKES)
        overlap = (np.abs(corners[:, None] - digits) < DIGIT).all(-1).any(-1)
        kept = np.concatenate([kept, corners[~overlap]])
        if len(kept) >= STROKES:
            return kept[:STROKES]
    raise DataError(
        f"noise finds no place beside the digits on a canvas of {size[0]}×{size[1]} px: ask for a larger one"
    )


def _corners(rng: np.random.Generator, size: tuple[int, int], count: int) -> ndarray:
    room = np.array(size) - DIGIT + 1
    if room.min() < 1:
        raise DataError(
            f"a canvas of {size[0]}×{size[1]} px is smaller than a digit ({DIGIT} px): ask for a larger one"
        )
    return rng.integers(0, room, (count, 2))


def _stroke(angle: float) -> UInt8[ndarray, "98"]:
    """The bits of a line through the middle of 28×28 pixels, from edge to edge."""
    direction = np.array([np.sin(angle), np.cos(angle)])
    along = np.linspace(-1, 1, STROKE_POINTS)[:, None] * direction / np.abs(direction).max()
    row, column = np.rint((along + 1) / 2 * (DIGIT - 1)).astype(int).T
    bits = np.zeros((DIGIT, DIGIT), bool)
    bits[row, column] = True
    return np.packbits(bits)


def render(record: ndarray, *, noise: bool = True) -> UInt8[ndarray, "H W"]:
    """The canvas of a record."""
    canvas = np.zeros(tuple(record["canvas"]), np.uint8)
    if noise:
        bits = np.unpackbits(record["stroke"], axis=1).reshape(STROKES, DIGIT, DIGIT)
        for stroke, (top, left) in zip(bits, record["stroke_top_left"].tolist(), strict=True):
            place = canvas[top : top + DIGIT, left : left + DIGIT]
            np.maximum(place, 255 * stroke, out=place)
    for digit, (top, left) in zip(record["digit"], record["digit_top_left"].tolist(), strict=True):
        canvas[top : top + DIGIT, left : left + DIGIT] = digit
    return canvas


def _topmost(record: ndarray) -> int:
    return int(record["digit_class"][record["digit_top_left"][:, 0].argmin()])


def _presence(record: ndarray) -> tuple[int, ...]:
    return tuple(int(k in record["digit_class"]) for k in range(10))


TASKS: dict[str, Callable[[ndarray], int | tuple[int, ...]]] = {
    "majority": lambda record: int(np.bincount(record["digit_class"]).argmax()),
    "max": lambda record: int(record["digit_class"].max()),
    "top": _topmost,
    "multi": _presence,
}


def paths(index: int) -> tuple[str, ...]:
    """The file of canvas `index`."""
    return (f"{split_of(index)}/{index:06d}.npy",)


def files(index: int, *, seed: int, size: tuple[int, int] = SIZE, source: Path) -> dict[str, bytes]:
    """Canvas `index` as the bytes of its file."""
    buffer = io.BytesIO()
    np.save(buffer, draw_canvas(index, seed=seed, size=size, source=Path(source)))
    return {paths(index)[0]: buffer.getvalue()}


class MegapixelMNIST(Dataset[Sample]):
    """The canvases of one split of a folder made by `make("megapixel-mnist", …)`, with the labels of one task.

    Samples are (image, label, boxes, index); an image is gray, its three channels share their memory. For "multi" the
    label is a tuple of ten 0 or 1, which batches to B×10.

    >>> MegapixelMNIST("canvases", "train", task="top")[0].label  # doctest: +SKIP
    """

    def __init__(self, folder: Path | str, split: str, *, task: str = "majority"):
        if task not in TASKS:
            raise DataError(f"unknown task {task!r}: choose one of {', '.join(TASKS)}")
        if split not in SPLITS:
            raise DataError(f"{split!r} is not a split: choose one of {', '.join(SPLITS)}")
        settings = Path(folder) / SETTINGS_FILE
        if not settings.is_file():
            raise DataError(f"{folder}: no {SETTINGS_FILE}; make the set with `saccade data make megapixel-mnist`")
        count = json.loads(settings.read_text())["count"]
        self.files = [Path(folder) / paths(k)[0] for k in range(count) if split_of(k) == split]
        missing = [path for path in self.files if not path.is_file()]
        if missing or not self.files:
            found = len(self.files) - len(missing)
            raise DataError(
                f"{folder}: {found} of {len(self.files)} {split} canvases; make the rest with the same command"
            )
        self.classes = CLASSES
        self.task = task

    def __len__(self) -> int:
        return len(self.files)

    def record(self, index: int) -> ndarray:
        """The sparse form of a canvas."""
        return np.load(self.files[index])

    def __getitem__(self, index: int) -> Sample:
        record = self.record(index)
        image = torch.from_numpy(render(record))[None].expand(3, -1, -1)
        top_left = torch.from_numpy(record["digit_top_left"]).long()
        boxes = torch.cat([top_left.flip(1), top_left.flip(1) + DIGIT], 1)
        return Sample(image, TASKS[self.task](record), boxes, index)
