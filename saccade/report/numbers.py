"""A run → the numbers people ask for first, each with how far it can be trusted."""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from saccade.evaluation import wilson_interval
from saccade.report import intervals
from saccade.report.intervals import Estimate
from saccade.report.task_numbers import Number, numbers_of
from saccade.runs.prediction_tables import PredictionTable
from saccade.runs.run_contents import Run

if TYPE_CHECKING:
    from rich.table import Table

SHARES = (
    *("accuracy", "balanced_accuracy", "exact_match", "f1", "average_precision", "auroc"),
    *("hit_rate", "overlap", "mutual_overlap"),
    *("decision_accuracy", "decision_recall", "decision_precision", "decision_f1", "review"),
)


# Numbers of evaluation/<split>.json that are told without an interval.
MEASURED = {
    "f1": "F1 in the mean over classes",
    "calibration_error": "by how much confidence and accuracy differ",
    "mutual_overlap": "of two chosen patches is common to both (IoU)",
}


class Cost(NamedTuple):
    """What an answer and the training took; NaN where nobody measured it. Pixels are those of one image."""

    milliseconds: float
    image_pixels: float
    view_pixels: float
    patch_pixels: float
    minutes: float
    images_seen: int
    parameters: float
    multiply_adds: float
    scorer_multiply_adds: float
    memory_mb: float


def headline(table: PredictionTable, positive: str | None = None) -> list[Number]:
    """The numbers of the task, the one that matters most first; where the model looked only if the data has boxes.

    positive: the class whose average precision is told; without it, the mean over classes.
    """
    numbers = numbers_of(table, positive)
    looked = {
        "hit rate": ([row.hit for row in table.rows], "of the boxes of an image are shown by a chosen patch"),
        "overlap": ([row.overlap for row in table.rows], "of a box is seen in the patch that shows it best"),
    }
    for name, (column, meaning) in looked.items():
        values = np.array(column)
        if not np.isnan(values).all():
            numbers.append(Number(name, intervals.mean(values[~np.isnan(values)]), meaning))
    return numbers


def measured(run: Run) -> list[Number]:
    """What else the evaluation wrote down."""
    several = run.evaluation.get("task", {}).get("name") == "multi"  # whose F1 is a number of the task
    return [
        Number(name.replace("_", " "), Estimate(run.evaluation[name]), meaning)
        for name, meaning in MEASURED.items()
        if name in run.evaluation and not (several and name == "f1")
    ]


def cost(run: Run) -> Cost:
    """What the run's model and training took, as far as it is known."""
    evaluation = run.evaluation
    pixels = evaluation.get("pixels", {})
    seconds = run.facts.get("seconds_of_training")
    return Cost(
        milliseconds=evaluation.get("milliseconds_per_image", math.nan),
        image_pixels=pixels.get("image", math.nan),
        view_pixels=pixels.get("view", math.nan),
        patch_pixels=pixels.get("patches", math.nan),
        minutes=math.nan if seconds is None else seconds / 60,
        images_seen=run.steps_done * int(run.recipe.get("batch", 1)),
        parameters=run.facts.get("parameters", math.nan),
        multiply_adds=evaluation.get("multiply_adds", {}).get("total", math.nan),
        scorer_multiply_adds=evaluation.get("multiply_adds", {}).get("scorer", math.nan),
        memory_mb=evaluation.get("peak_memory_mb", math.nan),
    )


def percent(value: float, digits: int = 1) -> str:
    """A share as people write it; "–" if there is none. Only a perfect one is called 100%.

    >>> percent(0.9876), percent(0.9999), percent(1.0), percent(math.nan)
    ('98.8%', '99.9%', '100%', '–')
    """
    if math.isnan(value):
        return "–"
    if value >= 1:
        return "100%"
    return f"{min(round(100 * value, digits), 100 - 10**-digits):.{digits}f}%"


def show_number(number: Number, value: float | None = None) -> str:
    """The number without its interval, or another value of the same kind."""
    value = number.estimate.value if value is None else value
    if not number.plain:
        return percent(value)
    return "–" if math.isnan(value) else f"{value:.3g}"


def show_interval(number: Number) -> str:
    """The two ends of its interval; nothing where there is none."""
    _, low, high = number.estimate
    if math.isnan(low):
        return ""
    return f"{low:.3g} to {high:.3g}" if number.plain else f"{interval(number.estimate)}%"


def show_both(number: Number) -> str:
    """The number and its interval."""
    if not number.plain:
        return with_interval(number.estimate)
    ends = show_interval(number)
    return f"{show_number(number)} ({ends})" if ends else show_number(number)


def with_interval(estimate: Estimate) -> str:
    """A share and its 95% interval, in few letters.

    >>> with_interval(Estimate(0.98, 0.93, 0.9945))
    '98.0% (93.0–99.5)'
    """
    if math.isnan(estimate.low):
        return percent(estimate.value)
    return f"{percent(estimate.value)} ({interval(estimate)})"


def interval(estimate: Estimate) -> str:
    """The two ends in percent, without the sign."""
    return f"{100 * max(estimate.low, 0):.1f}–{100 * min(estimate.high, 1):.1f}"


def amount(value: float, unit: str = "", digits: int = 0) -> str:
    """A number with thousands apart, or "–"."""
    return "–" if math.isnan(value) else f"{value:,.{digits}f}{unit}"


def numbers_table(summary: dict[str, Any]) -> "Table":
    """An evaluation's summary (`evaluation/<split>.json`) for a terminal; the accuracy with its interval."""
    from rich.table import Table
    from rich.text import Text

    count, table = int(summary["images"]), Table(box=None, show_header=False, pad_edge=False)
    for name, value in summary.items():
        if name == "task":
            table.add_row(name, value["name"])
        elif name == "positive":
            table.add_row("average precision, auroc of", Text(value))
        elif isinstance(value, str | int):
            table.add_row(name, f"{value:,}" if isinstance(value, int) else Text(value))
        elif name == "accuracy" and summary.get("task", {}).get("name", "single") in ("single", "ordinal"):
            ends = wilson_interval(round(value * count), count)
            table.add_row(name, with_interval(Estimate(value, *ends)))
        elif isinstance(value, float):
            share = name.partition(":")[0] in SHARES
            table.add_row(Text(name.replace("_", " ")), percent(value) if share else f"{value:.4g}")
    pixels = {name: f"{part:,.0f}" for name, part in summary.get("pixels", {}).items()}
    table.add_row("pixels", ", ".join(f"{part} in the {name}" for name, part in pixels.items()))
    work = {name: f"{part / 1e6:,.4g}" for name, part in summary.get("multiply_adds", {}).items()}
    table.add_row("million multiply-adds", ", ".join(f"{part} {name}" for name, part in work.items()))
    return table
