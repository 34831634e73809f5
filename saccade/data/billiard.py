"""Billiard: rendered tables with numbered balls, published as `{train,valid,test}/<int>.png` and `<int>.json`.

A JSON file lists the balls: `position` (index 0 is x), `number` (1 to 9), `color`, and in sets made here `bbox`, in
pixels. Four questions can be asked of the same images:

    max-left-right        the larger of the leftmost and the rightmost ball's numbers (the paper's task)
    rightmost-number      the rightmost ball's number
    sum-all-modulo-10     the last digit of the sum of all numbers
    left-colour-min-max   the smallest number if the leftmost ball is green, blue or purple, the largest if it is
                          yellow, red or orange
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from saccade.data.records import DataError, Record, Records

SPLIT_FOLDERS = {"train": "train", "valid": "val", "test": "test"}
MIN_COLOURS = ("green", "blue", "purple")
MAX_COLOURS = ("yellow", "red", "orange")

Ball = dict[str, Any]


class Task(NamedTuple):
    """A question: its possible answers and how to find the right one."""

    classes: tuple[str, ...]
    answer: Callable[[list[Ball]], int]


def _x(ball: Ball) -> float:
    return float(ball["position"][0])


def _max_left_right(balls: list[Ball]) -> int:
    return max(min(balls, key=_x)["number"], max(balls, key=_x)["number"])


def _rightmost_number(balls: list[Ball]) -> int:
    return max(balls, key=_x)["number"]


def _sum_all_modulo_10(balls: list[Ball]) -> int:
    return sum(ball["number"] for ball in balls) % 10


def _left_color_min_max(balls: list[Ball]) -> int:
    pick = dict.fromkeys(MIN_COLOURS, min) | dict.fromkeys(MAX_COLOURS, max)
    color = min(balls, key=_x)["color"]
    if color not in pick:
        raise ValueError(f"the leftmost ball is {color!r}, this task knows {', '.join(pick)}")
    return pick[color](ball["number"] for ball in balls)


_NUMBERS = tuple("123456789")
TASKS = {
    "max-left-right": Task(_NUMBERS, _max_left_right),
    "rightmost-number": Task(_NUMBERS, _rightmost_number),
    "sum-all-modulo-10": Task(tuple("0123456789"), _sum_all_modulo_10),
    "left-colour-min-max": Task(_NUMBERS, _left_color_min_max),
}


def is_billiard(path: Path) -> bool:
    """Whether `path` has a train folder with numbered PNG and JSON pairs."""
    return next((path / "train").glob("[0-9]*.json"), None) is not None


def load_billiard(root: Path, *, task: str = "max-left-right") -> Records:
    """The images of all splits, labeled for one of the four tasks."""
    if task not in TASKS:
        raise DataError(f"unknown billiard task {task!r}: choose one of {', '.join(TASKS)}")
    classes, answer = TASKS[task]
    records = []
    for folder, split in SPLIT_FOLDERS.items():
        for description in sorted((root / folder).glob("[0-9]*.json"), key=lambda path: int(path.stem)):
            image = description.with_suffix(".png")
            if not image.is_file():
                raise DataError(f"{description}: no {image.name} beside it; unpack or make the set again")
            balls = _read_balls(description)
            try:
                label = str(answer(balls))
            except (ValueError, KeyError, TypeError, IndexError) as error:
                raise DataError(f"{description}: {error}; expected balls with position, number and color") from error
            if label not in classes:
                raise DataError(f"{description}: the answer is {label}, expected {classes[0]} to {classes[-1]}")
            boxes = tuple(tuple(ball["bbox"]) for ball in balls if "bbox" in ball)
            records.append(Record(image, label, split, boxes))
    return Records(root, classes, tuple(records))


def _read_balls(path: Path) -> list[Ball]:
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise DataError(f"{path}: not JSON ({error}); unpack or make the set again") from None
