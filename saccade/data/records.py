"""What every data set becomes: a list of images, each a file with its label, split, boxes, group and fold."""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from saccade.files import shown
from saccade.tasks.labels import Question, label_names, strata

SPLITS = ("train", "val", "test")
SPLIT_NAMES = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
UNSPLIT = ""

Box = tuple[int, int, int, int]


class DataError(ValueError):
    """Something is wrong with the data a user gave; the message says what, where and what to do, on one line."""

    def __init__(self, message: str):
        super().__init__(shown(message))  # names of files and labels are in it


class Record(NamedTuple):
    """One image; `boxes` are left, top, right, bottom in pixels of the upright image, right and bottom exclusive.

    label: as it was written; of several names, or answers, all of them (saccade/tasks/labels.py).
    kinds: of each box the name it shows, "" where nobody said; empty where nobody said of any.
    group: what it belongs to and is never parted from (a patient, a part); "" for an image that stands alone.
    fold:  the fold in which it is tested, where the data set has folds.
    """

    image: Path
    label: str
    split: str
    boxes: tuple[Box, ...] = ()
    group: str = ""
    fold: str = ""
    kinds: tuple[str, ...] = ()


class Records(NamedTuple):
    """A data set.

    classes:   all names that labels have, in the order of their numbers; none where labels are numbers.
    notes:     what the user should know.
    task:      what labels mean; `questions` where it is several.
    """

    root: Path
    classes: tuple[str, ...]
    records: tuple[Record, ...]
    notes: tuple[str, ...] = ()
    task: str = "single"
    questions: tuple[Question, ...] = ()

    def split(self, name: str) -> "Records":
        """The images of one split, with the classes of the whole set."""
        if name not in SPLITS:
            raise DataError(f"{name!r} is not a split: choose one of {', '.join(SPLITS)}")
        return self._replace(records=tuple(record for record in self.records if record.split == name))

    def counts(self) -> dict[str, dict[str, int]]:
        """Images per split and name: `counts()["train"]["cat"]`; one with several names counts for each."""
        number = Counter((record.split, name) for record in self.records for name in self.names(record))
        return {split: {label: number[split, label] for label in self.classes} for split in SPLITS}

    def sizes(self) -> dict[str, int]:
        """Images per split."""
        number = Counter(record.split for record in self.records)
        return {split: number[split] for split in SPLITS}

    def names(self, record: Record) -> tuple[str, ...]:
        """Those of the `classes` that a record's label has."""
        return label_names(self.task, record.label, self.questions)

    def strata(self, records: Sequence[Record]) -> list[tuple[str, ...]]:
        """By what each of some of the records is dealt alike: its names; of a number, which fifth it is in."""
        return strata(self.task, [record.label for record in records], self.questions)


def positive_class(records: Records, wanted: str | None = None) -> str | None:
    """The class whose average precision and AUROC are told: of two the rarer one; of more none, but the mean.

    Of two equally frequent ones it is the second, as of no and yes, or 0 and 1. Where `wanted` is given it is that.
    """
    if wanted is not None and wanted not in records.classes:
        if not records.classes:
            raise DataError(f"positive is {wanted!r}, and labels are numbers: leave it out")
        raise DataError(f"positive is {wanted!r}: no such class; there are {', '.join(map(repr, records.classes))}")
    if wanted is not None or len(records.classes) != 2 or records.task != "single":
        return wanted
    number = Counter(record.label for record in records.records)
    return min(reversed(records.classes), key=lambda label: number[label])


def describe_alike(classes: Sequence[str]) -> list[str]:
    """One line, if classes are told apart by capitals, spaces or ways to write an accent alone: often they are one.

    >>> describe_alike(("Red", "blue", "red"))[0][:60]
    "warning: the classes 'Red' and 'red' differ by capitals or s"
    """
    alike = defaultdict(list)
    for label in classes:
        alike["".join(unicodedata.normalize("NFKC", label).casefold().split())].append(label)
    pairs = [" and ".join(map(repr, labels)) for labels in alike.values() if len(labels) > 1]
    if not pairs:
        return []
    some = ", ".join(pairs[:5]) + (", …" if len(pairs) > 5 else "")
    return [f"warning: the classes {some} differ by capitals or spaces alone; if they are one, give them one name"]
