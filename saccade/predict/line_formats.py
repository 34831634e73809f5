r"""Predictions → lines of a file: JSON lines, or a table in CSV.

{"image": "a.jpg", "label": "70", "probabilities": {"50": 0.02, "70": 0.98}, "boxes": [{"left": 364, "top": 100,
 "right": 428, "bottom": 164, "score": 0.99}], "size": [336, 448], "milliseconds": 11.2}
{"image": "b.jpg", "error": "the file is empty (0 bytes)"}

image,label,confidence,p:50,p:70,boxes,scores,height,width,milliseconds,error
a.jpg,70,0.98,0.02,0.98,364 100 428 164,0.99,336,448,11.2,

Where a model names several labels, JSON has all that are said as `labels`, and boxes those they speak for; in CSV a box
has them as its fifth word, parted by commas. A number is told as `value` too, and what is said to each of several
questions as `answers`. Of a model with a decision rule lines have a `decision`, and doubtful ones `"review": true`; in
CSV both have a column, and `review` is `yes` or empty.
"""

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from saccade.predict.outcomes import Box, Failure, Prediction

OBEYED = re.compile(r"[\x7f-\x9f]")  # by some terminals, and not escaped by JSON
MAX_LINES = 4096  # of one row: no path has more letters


class Done(NamedTuple):
    """What a line says was done: an image, and whether it failed."""

    image: str
    failed: bool


def as_tree(outcome: Prediction | Failure) -> dict[str, Any]:
    """The outcome as JSON has it.

    >>> as_tree(Failure("damaged"))
    {'error': 'damaged'}
    """
    if isinstance(outcome, Failure):
        return {"error": outcome.error}
    several = {} if outcome.labels is None else {"labels": list(outcome.labels)}
    answers = {name: said.text if said.value is None else _short(said.value) for name, said in outcome.answers.items()}
    number = {} if outcome.value is None else {"value": _short(outcome.value)}
    return {
        "label": outcome.label,
        **(number or several),
        **({"answers": answers} if answers else {}),
        **({} if outcome.decision is None else {"decision": outcome.decision}),
        **({"review": True} if outcome.review else {}),
        "probabilities": {name: _short(share) for name, share in outcome.probabilities.items()},
        "boxes": [_box_tree(box, told=outcome.labels is not None) for box in outcome.boxes],
        "size": list(outcome.size),
        "milliseconds": round(outcome.milliseconds, 1),
    }


def _box_tree(box: Box, *, told: bool) -> dict[str, Any]:
    tree = box._replace(score=_short(box.score))._asdict()
    labels = tree.pop("labels")
    return {**tree, "labels": list(labels)} if told else tree


def _short(value: float | None) -> float | None:
    """Six digits: the same image in another batch may differ in the last of them."""
    return None if value is None else float(f"{value:.6g}")


class JsonLines:
    """One JSON object a line."""

    head = ""

    def __init__(self, classes: Sequence[str], *, decides: bool = False):
        self.classes, self.decides = list(classes), decides

    def line(self, image: str, outcome: Prediction | Failure) -> str:
        """What came of one image."""
        text = json.dumps({"image": image, **as_tree(outcome)}, ensure_ascii=False)
        return OBEYED.sub(lambda letter: f"\\u{ord(letter[0]):04x}", text) + "\n"

    def whole(self, lines: Iterable[str]) -> Iterator[str]:
        """The lines without the last one if it is torn."""
        return (line for line in lines if line.endswith("\n"))

    def read(self, lines: Iterable[str]) -> Iterator[Done]:
        """What was done, line by line; ValueError where a line is of another model, or of something else."""
        for text in lines:
            tree = json.loads(text)
            if "error" not in tree and list(tree["probabilities"]) != self.classes:
                raise ValueError(f"it has the classes {', '.join(tree['probabilities'])}")
            if "error" not in tree and ("decision" in tree) != self.decides:
                raise ValueError(f"it has {'no ' * self.decides}decisions")
            yield Done(tree["image"], "error" in tree)


class Table:
    """One row of a CSV table a line; boxes are written as in tables of images: left top right bottom, then `;`."""

    def __init__(self, classes: Sequence[str], *, decides: bool = False):
        self.classes, self.decides = list(classes), decides
        decided = ("decision", "review") if decides else ()
        self.columns = ("image", "label", *decided, "confidence", *(f"p:{name}" for name in classes))
        self.columns += ("boxes", "scores", "height", "width", "milliseconds", "error")
        self.head = _row(self.columns)

    def line(self, image: str, outcome: Prediction | Failure) -> str:
        """What came of one image."""
        tree = as_tree(outcome)
        if isinstance(outcome, Failure):
            return _row([image, *[""] * (len(self.columns) - 2), outcome.error])
        shares, boxes = tree["probabilities"], outcome.boxes
        places = ";".join(_place(box) for box in boxes)
        scores = ";".join(str(box["score"]) for box in tree["boxes"] if box["score"] is not None)
        size, time = tree["size"], tree["milliseconds"]
        sure = "" if math.isnan(outcome.confidence) else _short(outcome.confidence)
        decided = (outcome.decision, "yes" if outcome.review else "") if self.decides else ()
        row = (image, outcome.label, *decided, sure, *shares.values(), places, scores, *size, time, "")
        return _row(row)

    def whole(self, lines: Iterable[str]) -> Iterator[str]:
        """The rows without the last one if it is torn; a quoted name may continue in the next line."""
        row, quotes = [], 0
        for line in lines:
            row.append(line)
            quotes += line.count('"')
            if line.endswith("\n") and quotes % 2 == 0:
                yield "".join(row)
                row, quotes = [], 0
            elif len(row) > MAX_LINES:  # damage, not a torn row: all that follows would be lost
                raise ValueError(f"a quote of --out is still open after {MAX_LINES} lines: mend it, or give another")

    def read(self, lines: Iterable[str]) -> Iterator[Done]:
        """What was done, row by row."""
        for row in csv.reader(lines):
            if len(row) != len(self.columns):
                raise ValueError(f"a row has {len(row)} fields instead of {len(self.columns)}")
            yield Done(row[0], bool(row[-1]))


def _place(box: Box) -> str:
    return f"{box.left} {box.top} {box.right} {box.bottom} {','.join(box.labels)}".rstrip()


def _row(values: Iterable[Any]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerow(values)  # so that a lone \r in a name is quoted too
    return text.getvalue().removesuffix("\r\n") + "\n"


Format = JsonLines | Table
FORMATS: dict[str, type[Format]] = {".jsonl": JsonLines, ".csv": Table}


def format_of(path: Path) -> type[Format]:
    """The format that the suffix of `path` asks for."""
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"{path}: predictions are written as {' or '.join(FORMATS)}; give --out a name that ends so")
    return FORMATS[path.suffix.lower()]
