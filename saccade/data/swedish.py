"""Swedish traffic signs: 960×1280 street scenes with a speed limit of 50, 70, 80, or no sign at all.

Published as `Set1Part0` (train) and `Set2Part0` (test), JPEGs with an `annotations.txt` of lines

    file.jpg:VISIBLE, x_max, y_max, x_min, y_min, PROHIBITORY, 50_SIGN;MISC_SIGNS;…

(the larger corner first). Signs called MISC_SIGNS do not count. An image without signs is EMPTY; an image with a
visible 50, 70 or 80 takes that label; any other image is left out. Of several such signs the `largest` gives the label
(Katharopoulos and Fleuret), or the `first` in the file (Cordonnier et al.): on the published files the two agree.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from saccade.data.records import Box, DataError, Record, Records

CLASSES = ("EMPTY", "50", "70", "80")
SETS = {"Set1Part0": "train", "Set2Part0": "test"}
LIMITS = {"50_SIGN": "50", "70_SIGN": "70", "80_SIGN": "80"}


class Sign(NamedTuple):
    """A speed limit that can be read, in pixels."""

    label: str
    left_px: float
    top_px: float
    right_px: float
    bottom_px: float

    def area(self) -> float:
        """In square pixels."""
        return (self.right_px - self.left_px) * (self.bottom_px - self.top_px)

    def box(self) -> Box:
        """The whole pixels the sign touches."""
        left, top = math.floor(max(self.left_px, 0)), math.floor(max(self.top_px, 0))
        return left, top, math.ceil(self.right_px), math.ceil(self.bottom_px)


class Labeled(NamedTuple):
    """The label of an annotated image and the box of the sign that gave it."""

    file: str
    label: str
    boxes: tuple[Box, ...]


def _largest(signs: list[Sign]) -> Sign:
    return max(signs, key=Sign.area)


def _first(signs: list[Sign]) -> Sign:
    return signs[0]


RULES: dict[str, Callable[[list[Sign]], Sign]] = {"largest": _largest, "first": _first}


def read_annotations(path: Path, *, rule: str = "largest") -> list[Labeled]:
    """The images of an `annotations.txt` that have a label, in the file's order."""
    if rule not in RULES:
        raise DataError(f"unknown label rule {rule!r}: choose one of {', '.join(RULES)}")
    labeled = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line.strip():
            continue
        file, _, text = line.partition(":")
        signs = [part.split(",") for part in text.split(";") if part.strip() not in ("", "MISC_SIGNS")]
        try:
            limits = [_limit(sign) for sign in signs if _is_clear_limit(sign)]
        except (ValueError, IndexError):
            raise DataError(
                f"{path}, line {number}: expected file:sign;sign;… of visibility, x_max, y_max, x_min, y_min, type, "
                f"name; got {line!r}"
            ) from None
        if not signs:
            labeled.append(Labeled(file, "EMPTY", ()))
        elif limits:
            sign = RULES[rule](limits)
            labeled.append(Labeled(file, sign.label, (sign.box(),)))
    return labeled


def _is_clear_limit(fields: list[str]) -> bool:
    return fields[0].strip() == "VISIBLE" and fields[6].strip() in LIMITS


def _limit(fields: list[str]) -> Sign:
    # Read for these signs alone: among the others, the published file has a number with a letter in it.
    x_max, y_max, x_min, y_min = map(float, fields[1:5])
    return Sign(LIMITS[fields[6].strip()], x_min, y_min, x_max, y_max)


def is_swedish(path: Path) -> bool:
    """Whether `path` holds Set1Part0 or Set2Part0."""
    return any((path / name).is_dir() for name in SETS)


def load_swedish(root: Path, *, rule: str = "largest") -> Records:
    """Set1Part0 as train and Set2Part0 as test; the validation split is still to be drawn."""
    records = []
    for name, split in SETS.items():
        if not (root / name / "annotations.txt").is_file():
            raise DataError(
                f"{root}: no {name}/annotations.txt; each of {' and '.join(SETS)} needs its own, beside its images"
            )
        for file, label, boxes in read_annotations(root / name / "annotations.txt", rule=rule):
            image = root / name / file
            if not image.is_file():
                raise DataError(
                    f"{image}: listed in annotations.txt and not there; unpack {name}.zip into {root / name}"
                )
            records.append(Record(image, label, split, boxes))
    return Records(root, CLASSES, tuple(records))
