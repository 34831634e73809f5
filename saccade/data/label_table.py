"""Labels that people correct, in the table they came from: written whole or not at all, every other line as it was."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from saccade.data.folders_and_tables import DELIMITERS, find_image
from saccade.data.label_columns import LabelColumns, find_label_columns
from saccade.data.records import DataError, Records
from saccade.files import write_whole
from saccade.tasks.labels import (
    Cell,
    LabelError,
    Question,
    each_question,
    find_task,
    in_order,
    label_names,
    split_answers,
)

BOM = "\ufeff"


class LabelTable:
    """The labels of a data set, which `change` corrects one by one.

    path:    the table, see `saccade.data.loading.table_of`. Of class folders it comes to be with the first change, in
             the splits, groups and folds of `records`, and is from then on what is read.
    records: the images that it has.
    group:   the column that says which images belong together, if it is not called so.
    labels:  of each image what the table says now.

    Before the first change the table is copied to `backup`.
    """

    def __init__(self, path: Path, records: Records, group: str | None = None):
        self.path, self.labels = path, {record.image: record.label for record in records.records}
        self.backup = path.with_name(f"{path.name}.{datetime.now():%Y-%m-%dT%H%M%S}.bak")
        self._records, self._group = records, (group or "group").strip().lower()
        self._known = _read(path)

    def change(self, image: Path, label: str) -> str:
        """Write another label of an image, and return it in the order of the classes."""
        task = (self._records.task, self._records.classes, self._records.questions)
        _refuse_unknown(label, each_question(*task))
        label = in_order(task[0], label, *task[1:])
        if _read(self.path) != self._known:
            raise DataError(f"{self.path} was changed by somebody else meanwhile: start again, to see what it says now")
        content = _replaced(self._known or self._new(), self.path, image, label, self._group)
        if self._known is not None and not self.backup.exists():
            write_whole(self.backup, self._known)
        write_whole(self.path, content)
        self._known, self.labels[image] = content, label
        return label

    def _new(self) -> bytes:
        """The table of a folder that has none."""
        records = self._records.records
        columns = [name for name in ("group", "fold") if any(getattr(record, name) for record in records)]
        columns = ["image", "label", *columns, *(() if "fold" in columns else ("split",))]
        rows = ({**each._asdict(), "image": each.image.relative_to(self.path.parent).as_posix()} for each in records)
        lines = [columns, *([row[name] for name in columns] for row in rows)]
        return "".join(_line(line, ",", "\n") for line in lines).encode(errors="surrogateescape")


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _refuse_unknown(label: str, questions: Sequence[Question]) -> None:
    """Only names that are there already: a slip of the pen would be a new class."""
    try:
        for question, text in zip(questions, split_answers(label, len(questions)), strict=True):
            find_task([Cell(text, "the new label")], question.task)
            unknown = [name for name in label_names(question.task, text) if name not in question.classes]
            if unknown:
                expected = ", ".join(question.classes)
                raise DataError(f"the new label {text!r}: no such class {', '.join(unknown)}; expected {expected}")
    except LabelError as error:
        raise DataError(str(error)) from None


class _Row(NamedTuple):
    text: str  # as it stands in the file, with its line end
    fields: list[str]


def _rows(content: bytes, delimiter: str) -> Iterator[_Row]:
    taken: list[str] = []

    def feed() -> Iterable[str]:
        for line in io.StringIO(content.decode(errors="surrogateescape"), newline=""):
            taken.append(line)
            yield line

    for fields in csv.reader(feed(), delimiter=delimiter, strict=True):
        yield _Row("".join(taken), fields)
        taken.clear()


def _line(fields: Sequence[str], delimiter: str, end: str) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter, lineterminator=end).writerow(fields)
    return text.getvalue()


def _replaced(content: bytes, path: Path, image: Path, label: str, group: str) -> bytes:
    """The table with another label of one image; all other lines are the bytes that they were."""
    delimiter, names, columns, found = DELIMITERS[path.suffix.lower()], [], LabelColumns(()), False
    texts = []
    for text, fields in _rows(content, delimiter):
        if not names:
            names = [name.removeprefix(BOM).strip().lower() for name in fields]
            columns = find_label_columns(names, group) or columns
        elif fields and not found and find_image(path.parent, fields[names.index("image")].strip()) == image:
            found, cells = True, columns.cells(label)
            filled = [*fields, *[""] * (len(names) - len(fields))]
            fields = [cells.get(name, field) for name, field in zip(names, filled, strict=True)]
            text = _line(fields, delimiter, text[len(text.rstrip("\r\n")) :])
        texts.append(text)
    if not found:
        raise DataError(f"{path}: no line for {image} any more")
    return "".join(texts).encode(errors="surrogateescape")
