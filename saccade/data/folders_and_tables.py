"""One's own images: a folder of class folders, or a table with one line per image.

    cats/1.jpg                train/cats/1.jpg           image,label,split,boxes,group,fold
    cats/2.jpg                val/cats/2.jpg             a/1.jpg,cat,train,,Tom,0
    dogs/1.jpg                test/dogs/1.jpg            a/2.jpg,dog,test,10 20 50 60;70 20 90 60,Rex,1

The table is `.csv` (commas) or `.tsv` (tabs), UTF-8. `image` is relative to the table's folder or to `images` in it;
`split` (train, val, test) and `boxes` (left top right bottom, pixels of the upright image, right and bottom
exclusive; several separated by `;`) may be left out. Boxes are for measuring where a model looks; a fifth word says
which label each shows. `label_columns` has what labels may be. `group` (or another
column that the user names) and `fold` may be left out too: images of one group are never parted.
"""

import csv
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from saccade.data.groups import refuse_alike
from saccade.data.label_columns import LabelColumns, find_label_columns, interpret, name_kinds
from saccade.data.records import SPLIT_NAMES, UNSPLIT, Box, DataError, Record, Records
from saccade.files import shown
from saccade.images.image_formats import IMAGE_SUFFIXES
from saccade.places import origin_of, split_member
from saccade.tasks.labels import in_order

DELIMITERS = {".csv": ",", ".tsv": "\t"}
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}
FOLD_NAME = re.compile(r"[\w-]*")  # the name of a run folder, too


def subfolders(folder: Path) -> list[Path]:
    """The visible folders in `folder`, by name."""
    return sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def is_class_folders(path: Path) -> bool:
    """Whether `path` looks like a folder of class folders or of split folders."""
    if not path.is_dir():
        return False
    names = [folder.name.lower() for folder in subfolders(path)]
    return len(names) > 1 or "train" in names


def load_folder(root: Path, labels: str | None = None) -> Records:
    """The images in class folders, at any depth inside them; split where the folders say so.

    labels: what the folders' names mean, a task (default: single).
    """
    parts = {folder: SPLIT_NAMES.get(folder.name.lower(), UNSPLIT) for folder in subfolders(root)}
    if parts and all(parts.values()):
        records = [record for folder, split in parts.items() for record in _images_by_class(folder, split)]
    else:
        _refuse_half_split(root, parts)
        records = _images_by_class(root, UNSPLIT)
    places = [str(record.image) for record in records]
    return _records(root, records, places, labels or "single", notes=tuple(_strangers(root)))


def _records(
    root: Path,
    records: list[Record],
    places: Sequence[str],
    labels: str | None,
    columns: LabelColumns | None = None,
    *,
    notes: tuple[str, ...] = (),
) -> Records:
    """With one's own labels, one that is in val or test and not in train is more likely misspelt than meant."""
    task, classes, questions, told = interpret(records, places, labels, columns)
    records = [name_kinds(record, place, classes) for record, place in zip(records, places, strict=True)]
    named = (r._replace(label=in_order(task, r.label, classes, questions)) for r in records)
    found = Records(root, classes, tuple(named), (*notes, *told), task, questions)
    seen = {name for record in records if record.split in ("train", UNSPLIT) for name in found.names(record)}
    unknown = [name for name in classes if name not in seen]
    if unknown and len(unknown) < len(classes):
        raise DataError(
            f"{root}: no training images for {', '.join(unknown)}, only val or test ones; add some or correct the label"
        )
    return found


def _images_by_class(folder: Path, split: str) -> list[Record]:
    records = []
    for class_folder in subfolders(folder):
        images = [file for file in _visible_files(class_folder) if file.suffix.lower() in IMAGE_SUFFIXES]
        if not images:
            raise DataError(
                f"{class_folder}: a class folder without images (known suffixes: {' '.join(sorted(IMAGE_SUFFIXES))}); "
                "add images or delete the folder"
            )
        records += [Record(image, class_folder.name, split) for image in images]
    if not records:
        raise DataError(
            f"{folder}: no class folders in it; put each class's images into a folder named after the class"
        )
    return records


def walk(folder: str | Path) -> Iterator[tuple[str, list[str]]]:
    """`folder` and all folders below it, linked ones too, but for hidden ones, with the names of their files."""
    entered = set()  # a link to a folder above would lead in circles
    for where, folders, files in os.walk(folder, followlinks=True, onerror=_refuse):
        found = os.stat(where)
        if (found.st_dev, found.st_ino) in entered:
            folders.clear()
            continue
        entered.add((found.st_dev, found.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield where, files


def _refuse(error: OSError) -> None:
    raise OSError(
        f"{error.filename}: this folder cannot be read ({error.strerror}); make it readable, or leave it out"
    ) from error


def _visible_files(folder: Path) -> Iterator[Path]:
    for where, files in walk(folder):
        yield from (Path(where, name) for name in sorted(files) if not name.startswith("."))


def _refuse_half_split(root: Path, parts: dict[Path, str]) -> None:
    """A class may be called "train"; but a train folder that holds folders, among others, is a split gone wrong."""
    train = [folder.name for folder, split in parts.items() if split == "train" and subfolders(folder)]
    others = [folder.name for folder, split in parts.items() if not split]
    if train:
        raise DataError(
            f"{root}: a split folder ({train[0]}) beside others ({', '.join(others[:5])}); "
            "keep only train, val and test here"
        )


def _strangers(root: Path) -> Iterator[str]:
    strangers = [file for file in _visible_files(root) if file.suffix.lower() not in IMAGE_SUFFIXES]
    if strangers:
        yield f"left out {len(strangers)} files that have no image's suffix, such as {strangers[0].relative_to(root)}"


def is_manifest(path: Path) -> bool:
    """Whether `path` is a table of images."""
    return path.suffix.lower() in DELIMITERS and path.is_file()


def load_manifest(path: Path, group: str | None = None, labels: str | None = None) -> Records:
    """The images a table lists; every complaint names the table and the line.

    group:  the column that says which images belong together (default: the one called group, if there is one).
    labels: what labels mean, a task, if not what they look like.
    """
    # Absolute, because ".." cannot be told from inside a folder called ".".
    root = Path(os.path.abspath(path.parent))
    records, line_of, groups, columns = [], {}, {}, None
    group_column = (group or "group").strip().lower()
    for line, row in _rows(path, group_column, needs_group=group is not None):
        columns = columns or find_label_columns([*row], group_column)
        assert columns is not None
        try:
            record = _record(root, row, columns, group_column)
            refuse_alike(record.group, f"on line {line}", groups)
        except DataError as error:
            raise DataError(f"{path}, line {line}: {error}") from None
        if record.image in line_of:
            raise DataError(
                f"{path}, line {line}: {row['image']!r} is already on line {line_of[record.image]}; keep one"
            )
        line_of[record.image] = line
        for column in ("split", "group", "fold"):
            if records and bool(getattr(record, column)) != bool(getattr(records[0], column)):
                raise DataError(f"{path}, line {line}: some lines give a {column} and some do not; fill in all or none")
        records.append(record)
    if not records:
        raise DataError(f"{path}: no line below the header; list one image per line")
    places = [f"{path}, line {line_of[record.image]}" for record in records]
    return _records(root, records, places, labels, columns)


def read_columns(path: Path) -> list[str]:
    """The names of a table's columns."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        return [name.strip().lower() for name in next(csv.reader(file, delimiter=DELIMITERS[path.suffix.lower()]), [])]


def _rows(path: Path, group: str, *, needs_group: bool) -> Iterator[tuple[int, dict[str, str]]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, delimiter=DELIMITERS[path.suffix.lower()], restval="", strict=True)
        try:
            header = reader.fieldnames = _header(path, reader, group, needs_group=needs_group)
            for row in reader:
                if None in row:
                    raise DataError(f"{path}, line {reader.line_num}: more fields than the header's {len(header)}")
                yield reader.line_num, {name: value.strip() for name, value in row.items()}
        except UnicodeDecodeError:
            raise DataError(f"{path}: not UTF-8 text; save the table as UTF-8") from None
        except csv.Error as error:
            raise DataError(f"{path}, line {reader.line_num + 1}: {error}") from None


def _header(path: Path, reader: csv.DictReader, group: str, *, needs_group: bool) -> list[str]:
    header = [name.strip().lower() for name in reader.fieldnames or []]
    if needs_group and group not in header:
        raise DataError(f"{path}, line 1: no column {group!r} to group by; the columns are {', '.join(header)}")
    columns = {"image": "image" in header, "label": find_label_columns(header, group) is not None}
    missing = [repr(name) for name, there in columns.items() if not there]
    if missing:
        separator = "tabs" if reader.reader.dialect.delimiter == "\t" else "commas"
        other = next((name for sign, name in SEPARATORS.items() if len(header) == 1 and sign in header[0]), None)
        meant = f", and this one by {other}: save it anew" if other else ""
        raise DataError(
            f"{path}, line 1: no column {' and '.join(missing)} in {shown(', '.join(header))!r}; expected image,label"
            f"[,split][,boxes][,group][,fold] separated by {separator}{meant}"
        )
    return header


def _record(root: Path, row: dict[str, str], columns: LabelColumns, group: str) -> Record:
    label = columns.label(row)
    if not row["image"]:
        raise DataError(f"label {label!r} without an image; name the image or delete the line")
    if empty := [name for name in columns.names if not row[name]]:
        where = "" if empty == ["label"] else f" in the column {empty[0]!r}"
        raise DataError(
            f"no label for {row['image']!r}{where}; every image needs one (a lone ; where it has none of several)"
        )
    split = row.get("split", "").lower()
    if split and split not in SPLIT_NAMES:
        raise DataError(f"unknown split {split!r}; expected one of {', '.join(SPLIT_NAMES)}")
    boxes = [_box(text) for text in row.get("boxes", "").split(";") if text.strip()]
    kinds = tuple(kind for _, kind in boxes) if any(kind for _, kind in boxes) else ()
    fold = row.get("fold", "")
    if not FOLD_NAME.fullmatch(fold):
        raise DataError(f"fold {fold!r} cannot name a folder; expected a number, or letters, digits, - and _")
    image, split = find_image(root, row["image"]), SPLIT_NAMES.get(split, UNSPLIT)
    return Record(image, label, split, tuple(box for box, _ in boxes), row.get(group, ""), fold, kinds)


def find_image(root: Path, name: str) -> Path:
    """The file that a table in the folder `root` calls `name`."""
    # Compared as text, not resolved: links that someone placed in the data folder may lead elsewhere.
    image = Path(os.path.normpath(root / name))
    if not image.is_relative_to(root):
        raise DataError(f"{name!r} leads out of the data folder; give paths relative to {root}")
    if in_shard := split_member(image):
        if not (origin_of(root) or in_shard[0].is_file()):
            raise DataError(f"no shard {in_shard[0].name} in {root}, which {name!r} is to be in; put it there")
        return image
    for candidate in (image, root / "images" / image.relative_to(root)):
        if candidate.exists() and not candidate.is_dir():  # what is no ordinary file is refused where it is read
            return candidate
    raise DataError(f"no image {name!r} in {root} or its folder images")


def _box(text: str) -> tuple[Box, str]:
    """A box and the label it shows, which may have blanks in it."""
    *words, kind = [*text.split(maxsplit=4), ""] if len(text.split(maxsplit=4)) < 5 else text.split(maxsplit=4)
    try:
        left, top, right, bottom = (int(number) for number in words)
    except ValueError:
        left, top, right, bottom = 0, 0, 0, 0
    if not (0 <= left < right and 0 <= top < bottom):
        raise DataError(
            f"box {text.strip()!r} is not four whole numbers left top right bottom with left < right and top < bottom, "
            "and perhaps the label it shows"
        )
    return (left, top, right, bottom), kind.strip()
