"""CUB-200-2011: 11,788 photographs of 200 bird species, in its own layout.

    images.txt               <image id> <path below images/>
    image_class_labels.txt   <image id> <class id>
    train_test_split.txt     <image id> <1 for train, 0 for test>
    bounding_boxes.txt       <image id> <x> <y> <width> <height>
    classes.txt              <class id> <name>

The paper tuned on 5000 of the 5994 training images and validated on the other 994; which ones it did not publish.
`VAL_SHARE` draws as many, stratified by class. Subsets of the data (fewer lines in every file) keep the share.
"""

import math
from pathlib import Path

from saccade.data.records import Box, DataError, Record, Records

VAL_SHARE = 994 / 5994


def is_cub(path: Path) -> bool:
    """Whether `path` has CUB's list files."""
    return all((path / name).is_file() for name in ("images.txt", "image_class_labels.txt", "train_test_split.txt"))


def load_cub(root: Path) -> Records:
    """The official train and test split; the validation split is still to be drawn."""
    names = {key: fields[0] for key, fields in _read_table(root / "classes.txt", 1).items()}
    labels = _read_table(root / "image_class_labels.txt", 1)
    is_train = _read_table(root / "train_test_split.txt", 1)
    boxes = _read_table(root / "bounding_boxes.txt", 4)
    records = []
    for key, (path,) in _read_table(root / "images.txt", 1).items():
        image = root / "images" / path
        if not image.is_file():
            raise DataError(
                f"{root / 'images.txt'}: {path} is listed and not in {root / 'images'}; unpack the archive again"
            )
        try:
            label, split = names[labels[key][0]], {"1": "train", "0": "test"}[is_train[key][0]]
            records.append(Record(image, label, split, (_box(boxes[key]),)))
        except KeyError as error:
            raise DataError(f"{root}: image {key} ({path}): {error} is missing in one of the list files") from None
    present = {record.label for record in records}
    return Records(root, tuple(name for name in names.values() if name in present), tuple(records))


def _read_table(path: Path, fields: int) -> dict[str, list[str]]:
    if not path.is_file():
        raise DataError(f"{path}: no such file; CUB-200-2011 comes with it, unpack the archive again")
    table = {}
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        key, *values = line.split(maxsplit=fields)
        if len(values) != fields:
            raise DataError(f"{path}, line {number}: expected an id and {fields} more fields, got {line!r}")
        table[key] = values
    return table


def _box(fields: list[str]) -> Box:
    left, top, width, height = map(float, fields)
    return math.floor(left), math.floor(top), math.ceil(left + width), math.ceil(top + height)
