"""What every data set becomes: a list of (image file, label, split, boxes), and how missing splits are drawn.

The splits are train, val and test. A validation split always exists. What the data set does not give is drawn per
class (stratified) and depends on nothing but the seed and the file names:

    no split at all        →  val and test are drawn from all images
    train, perhaps test    →  val is drawn from train; a test split is never made up

A class of n images gives q = share · n of them, rounded so that the total over the classes is right (largest
remainder), at least one where the class has one to spare; one image always stays in train.
"""

import math
from collections import Counter
from collections.abc import Mapping
from itertools import chain, repeat
from pathlib import Path
from typing import NamedTuple

import numpy as np

from saccade.files import shown

SPLITS = ("train", "val", "test")
SPLIT_NAMES = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
UNSPLIT = ""

Box = tuple[int, int, int, int]


class DataError(ValueError):
    """Something is wrong with the data a user gave; the message says what, where and what to do, on one line."""

    def __init__(self, message: str):
        super().__init__(shown(message))  # names of files and labels are in it


class Record(NamedTuple):
    """One image; `boxes` are left, top, right, bottom in pixels of the upright image, right and bottom exclusive."""

    image: Path
    label: str
    split: str
    boxes: tuple[Box, ...] = ()


class Records(NamedTuple):
    """A data set; a record's class number is its label's place in `classes`. `notes` is what the user should know."""

    root: Path
    classes: tuple[str, ...]
    records: tuple[Record, ...]
    notes: tuple[str, ...] = ()

    def split(self, name: str) -> "Records":
        """The images of one split, with the classes of the whole set."""
        if name not in SPLITS:
            raise DataError(f"{name!r} is not a split: choose one of {', '.join(SPLITS)}")
        return self._replace(records=tuple(record for record in self.records if record.split == name))

    def counts(self) -> dict[str, dict[str, int]]:
        """Images per split and class: `counts()["train"]["cat"]`."""
        number = Counter((record.split, record.label) for record in self.records)
        return {split: {label: number[split, label] for label in self.classes} for split in SPLITS}


def sort_labels(labels: set[str]) -> tuple[str, ...]:
    """Labels in the order of their class numbers: by value if all are whole numbers, else by alphabet.

    >>> sort_labels({"100", "20", "50"})
    ('20', '50', '100')
    """
    if all(label.isdecimal() for label in labels):
        return tuple(sorted(labels, key=lambda label: (int(label), label)))  # 7 and 07 are two labels
    return tuple(sorted(labels))


def complete(records: Records, *, seed: int = 0, val_share: float = 0.15, test_share: float = 0.15) -> Records:
    """The same images with every split in place; drawn splits and classes short of images are told in `notes`."""
    if not (0 < val_share < 1 and test_share >= 0 and val_share + test_share < 1):
        raise DataError(
            f"val_share is {val_share} and test_share {test_share}: val needs a share above 0, test one of at least 0, "
            "and together they must leave something to train on"
        )
    given = {record.split for record in records.records}
    if given == {UNSPLIT}:
        drawn = draw_splits(records, UNSPLIT, {"val": val_share, "test": test_share}, seed=seed)
        how = f"no splits given: drew val and test from all {len(records.records)} images"
    elif "val" not in given:
        drawn = draw_splits(records, "train", {"val": val_share}, seed=seed)
        how = f"no validation split given: drew it from the {len(records.split('train').records)} training images"
    else:
        drawn, how = records, ""
    _require_images(drawn)
    notes = [f"{how}, stratified by class, seed {seed}"] if how else []
    return drawn._replace(notes=(*records.notes, *notes, *_shortages(drawn)))


def draw_splits(records: Records, source: str, shares: Mapping[str, float], *, seed: int) -> Records:
    """Move `shares` of the images of split `source` to other splits; the rest becomes train."""
    pool: dict[str, list[int]] = {label: [] for label in records.classes}
    # Sorted by name, so that neither the file system's order nor that of a manifest's lines changes the draw.
    for number in sorted(range(len(records.records)), key=lambda number: records.records[number].image):
        if records.records[number].split == source:
            pool[records.records[number].label].append(number)
    sizes = [len(members) for members in pool.values()]
    quotas = {split: _apportion(sizes, share) for split, share in shares.items() if share > 0}
    new_split = {}
    for class_number, members in enumerate(pool.values()):
        more = [split for split, quota in quotas.items() for _ in range(quota[class_number] - 1)]
        deal = chain(["train", *quotas], more, repeat("train"))  # one for each first, as far as the images go
        shuffled = np.random.default_rng([seed, class_number]).permutation(members)
        new_split |= dict(zip(shuffled.tolist(), deal, strict=False))
    return records._replace(
        records=tuple(r._replace(split=new_split.get(number, r.split)) for number, r in enumerate(records.records))
    )


def _apportion(sizes: list[int], share: float) -> list[int]:
    exact = [share * size for size in sizes]
    quota = [math.floor(part) for part in exact]
    left_over = round(share * sum(sizes)) - sum(quota)
    for number in sorted(range(len(sizes)), key=lambda number: quota[number] - exact[number])[:left_over]:
        quota[number] += 1
    return quota


def _require_images(records: Records) -> None:
    if len(records.classes) < 2:
        raise DataError(
            f"{records.root}: only the class {records.classes}; a classifier needs at least two to tell apart"
        )
    if not any(records.counts()["train"].values()):
        raise DataError(f"{records.root}: no training images; put some into the split 'train'")
    if not any(records.counts()["val"].values()):
        raise DataError(
            f"{records.root}: no class has two training images, so none can be held out for validation; add images"
        )


def _shortages(records: Records) -> list[str]:
    counts = records.counts()
    notes = []
    single = [label for label, count in counts["train"].items() if count == 1]
    if single:
        notes.append(f"{_name_some(single)} one training image only: add more if you can")
    for split in SPLITS:
        empty = [label for label, count in counts[split].items() if count == 0]
        if len(empty) == len(records.classes):
            notes.append("no test split given: no test accuracy can be measured")
        elif empty:
            notes.append(f"{_name_some(empty)} no {split} images")
    return notes


def _name_some(labels: list[str]) -> str:
    named = ", ".join(repr(label) for label in labels[:5]) + (", …" if len(labels) > 5 else "")
    return f"class {named} has" if len(labels) == 1 else f"{len(labels)} classes ({named}) have"
