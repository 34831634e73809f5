"""Metrics as a table that survives: `metrics.csv` has a row per logged step, whole at every moment."""

import csv
from functools import partial
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers.logger import Logger
from lightning.pytorch.utilities import rank_zero_only

from saccade.files import whole_file


class CSVLog(Logger):
    """Rows of `path` before `step`, and those of the run that goes on there; Lightning's forgets the earlier ones."""

    def __init__(self, path: Path, *, step: int = 0):
        super().__init__()
        self.path = path
        self.rows = {row["step"]: row for row in map(partial(_until, step), read_metrics(path)) if len(row) > 1}

    @property
    def name(self) -> str:
        """Of the logger."""
        return "csv"

    @property
    def version(self) -> str:
        """There is one."""
        return ""

    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        """Nothing: the recipe is a file of its own."""

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Add to the row of `step`."""
        values = {name: float(value) for name, value in metrics.items() if name != "epoch"}
        if step is not None and values:
            self.rows.setdefault(step, {"step": step}).update(values)

    @rank_zero_only
    def save(self) -> None:
        """Write the table beside its place and move it there."""
        columns = list(dict.fromkeys(name for row in self.rows.values() for name in row))
        with whole_file(self.path) as part, part.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows[step] for step in sorted(self.rows))


def _until(step: int, row: dict[str, Any]) -> dict[str, Any]:
    """What was known when `step` steps had been taken: validation comes after a step, the rest with it."""
    return {name: row[name] for name in row if name == "step" or row["step"] < step + name.startswith("val/")}


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The rows of a metrics table, each with the numbers it has; none if there is no table yet."""
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        rows = [{name: float(value) for name, value in row.items() if value} for row in csv.DictReader(file)]
    return [{**row, "step": int(row["step"])} for row in rows]
