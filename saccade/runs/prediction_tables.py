"""`evaluation/<split>.csv`: what the best model said of each image, a row each."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from saccade.files import told
from saccade.runs.csv_cells import number, read_rows
from saccade.tasks.labels import Question, label_names

PROBABILITY = "p:"  # columns that hold the probability of a class
HIT = "hit:"  # of the share of the boxes of a kind that were seen
COLUMNS = ("image", "label", "predicted", "confidence", "hit", "overlap", "entropy", "boxes")


class PredictionRow(NamedTuple):
    """What the model said of one image; hit, overlap and entropy are NaN where they do not apply.

    boxes: left, top, right, bottom in pixels of the file, around the evidence, where the data has them; kinds: what
           each of them shows, where somebody said.
    hits:  the share of the boxes of each class that a chosen patch shows, where boxes have kinds.
    """

    image: str
    label: str
    predicted: str
    confidence: float
    hit: float
    overlap: float
    entropy: float
    probabilities: tuple[float, ...]
    boxes: tuple[tuple[int, int, int, int], ...] = ()
    kinds: tuple[str, ...] = ()
    hits: tuple[float, ...] = ()

    @property
    def right(self) -> bool:
        """Whether it said what was true."""
        return self.predicted == self.label


class PredictionTable(NamedTuple):
    """The predictions for the images of one split; probabilities are in the order of `classes`.

    task: what labels mean; questions: which ones, where it is several.
    """

    classes: tuple[str, ...]
    rows: tuple[PredictionRow, ...]
    task: str = "single"
    questions: tuple[Question, ...] = ()


def format_predictions(table: PredictionTable, more: Mapping[str, Sequence[str]] | None = None) -> str:
    """The table as CSV, `more` columns first. Probabilities have all their digits: sure answers keep their order."""
    more = more or {}
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    hits = [f"{HIT}{name}" for name in table.classes] if any(row.hits for row in table.rows) else []
    writer.writerow((*more, *COLUMNS, *(f"{PROBABILITY}{name}" for name in table.classes), *hits))
    for row, *first in zip(table.rows, *more.values(), strict=True):
        looks = [_cell(value, 6) for value in (row.hit, row.overlap, row.entropy)]
        shares = [_cell(value, 17) for value in row.probabilities]
        kinds = row.kinds or [""] * len(row.boxes)  # as in the tables that people write
        boxes = ";".join(" ".join(map(str, (*box, kind))).strip() for box, kind in zip(row.boxes, kinds, strict=True))
        shares += [_cell(value, 6) for value in row.hits]
        writer.writerow(
            (*first, row.image, row.label, row.predicted, _cell(row.confidence, 17), *looks, boxes, *shares)
        )
    return text.getvalue()


def _cell(value: float, digits: int) -> str:
    return "" if math.isnan(value) else f"{value:.{digits}g}"


def read_predictions(path: Path, task: str = "single", questions: tuple[Question, ...] = ()) -> PredictionTable:
    """The table in a CSV file, of labels that mean what `task` says."""
    rows = list(read_rows(path))
    try:
        return _read_table(rows, task, questions)
    except ValueError as error:
        raise ValueError(f"{path}: damaged ({told(error)}); run `saccade evaluate` again") from error


def _read_table(rows: Sequence[dict[str, str | None]], task: str, questions: tuple[Question, ...]) -> PredictionTable:
    columns = [name for name in (rows[0] if rows else ()) if name and name.startswith(PROBABILITY)]
    hits = [name for name in (rows[0] if rows else ()) if name and name.startswith(HIT)]
    classes = tuple(readable(name.removeprefix(PROBABILITY)) for name in columns)
    if rows and (missing := sorted({"image", "label", "predicted", "confidence"} - rows[0].keys())):
        raise ValueError(f"no column {', '.join(missing)}")
    table = PredictionTable(classes, tuple(_read_row(row, columns, hits) for row in rows), task, questions)
    texts = {text for row in table.rows for text in (row.label, row.predicted)}
    if unknown := sorted({name for text in texts for name in label_names(task, text, questions)} - set(classes)):
        raise ValueError(f"no column of the class {', '.join(unknown)}")
    return table


def _read_row(row: dict[str, str | None], columns: Sequence[str], hits: Sequence[str]) -> PredictionRow:
    image, label, predicted = (row[name] or "" for name in ("image", "label", "predicted"))
    confidence, hit, overlap, entropy = (number(row.get(name)) for name in COLUMNS[3:7])
    boxes = [text.split(maxsplit=4) for text in (row.get("boxes") or "").split(";") if text]
    kinds = tuple(readable(box[4]) if len(box) > 4 else "" for box in boxes)
    return PredictionRow(
        image,
        readable(label),
        readable(predicted),
        confidence,
        hit,
        overlap,
        entropy,
        probabilities=tuple(number(row.get(name)) for name in columns),
        boxes=tuple(_box(box) for box in boxes),
        kinds=kinds if any(kinds) else (),
        hits=tuple(number(row.get(name)) for name in hits),
    )


def _box(words: Sequence[str]) -> tuple[int, int, int, int]:
    left, top, right, bottom = map(int, words[:4])
    return left, top, right, bottom


def readable(label: str) -> str:
    """A label that can be drawn: bytes of a folder's name that are not UTF-8 are spelled out."""
    return label.encode(errors="backslashreplace").decode()
