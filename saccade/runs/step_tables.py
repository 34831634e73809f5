"""Tables over the steps of a run: `metrics.csv`, a row per logged step, and `warnings.csv`, a row per finding."""

import csv
import io
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from saccade.files import write_whole
from saccade.runs.csv_cells import number, read_rows


class TrainingWarning(NamedTuple):
    """A finding of the collapse watch; `kind` is its short name."""

    step: int
    kind: str
    message: str


class MetricsTable:
    """`metrics.csv` while a run writes it: whole at every moment.

    step: how many steps were taken before; what was written of later ones, by a run that was killed, is dropped.
    """

    def __init__(self, path: Path, *, step: int, writes: bool = True):
        self.path = path
        self.writes = writes
        known = (_until(step, row) for row in read_metrics(path))
        self.rows = {int(row["step"]): row for row in known if len(row) > 1}

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Add to the row of `step`."""
        if values:
            self.rows.setdefault(step, {"step": step}).update({name: float(value) for name, value in values.items()})

    def save(self) -> None:
        """Write the table."""
        if self.writes:
            columns = list(dict.fromkeys(name for row in self.rows.values() for name in row))
            rows = [self.rows[step] for step in sorted(self.rows)]
            _write(self.path, columns, [[row.get(name, "") for name in columns] for row in rows])


def _until(step: int, row: dict[str, float]) -> dict[str, float]:
    """What was known when `step` steps had been taken: validation comes after a step, the rest with it."""
    return {name: row[name] for name in row if name == "step" or row["step"] < step + name.startswith("val/")}


def read_metrics(path: Path) -> list[dict[str, float]]:
    """The rows of a metrics table, each with the numbers it has."""
    rows = [{name: number(text) for name, text in row.items() if name and text} for row in read_rows(path)]
    return [{**row, "step": int(row["step"])} for row in rows if math.isfinite(row.get("step", math.nan))]


class WarningsTable:
    """`warnings.csv` while a run writes it; what was found after `step`, by a run that was killed, is dropped."""

    def __init__(self, path: Path, *, step: int, writes: bool = True):
        self.path = path
        self.writes = writes
        self.rows = [row for row in read_warnings(path) if row.step <= step]
        if path.is_file():
            self._save()

    def add(self, warning: TrainingWarning) -> None:
        """Add a row."""
        self.rows.append(warning)
        self._save()

    def _save(self) -> None:
        if self.writes:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            _write(self.path, TrainingWarning._fields, self.rows)


def read_warnings(path: Path) -> list[TrainingWarning]:
    """The rows of a table of warnings; one that was cut off in the middle is left out."""
    rows = [(number(row.get("step")), row.get("kind"), row.get("message")) for row in read_rows(path)]
    whole = [row for row in rows if math.isfinite(row[0]) and row[1] and row[2]]
    return [TrainingWarning(int(step), str(kind), str(message)) for step, kind, message in whole]


def _write(path: Path, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    write_whole(path, text.getvalue())
