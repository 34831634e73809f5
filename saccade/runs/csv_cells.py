"""Rows and cells of the CSV files of a run. A line that is being written may end anywhere."""

import csv
import math
from collections.abc import Iterator
from pathlib import Path


def read_rows(path: Path) -> Iterator[dict[str, str | None]]:
    """The rows of a table; none if there is no such file."""
    if path.is_file():
        with path.open(newline="", encoding="utf-8", errors="surrogateescape") as file:  # as `write_whole` writes
            try:
                yield from csv.DictReader(file)
            except csv.Error as error:
                raise ValueError(f"{path}: not a table ({error}); restore it from a copy, or delete it") from error


def number(text: str | None) -> float:
    """The number in a cell; NaN if there is none."""
    try:
        return float(text or "nan")
    except ValueError:
        return math.nan
