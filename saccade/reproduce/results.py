"""Finished runs → numbers → `TABLE.csv`, one line per run, and `TABLE.md`, one line per row: the paper's and ours.

Both are made anew from the run folders each time. The spread is that of the paper's tables: the standard deviation of
the sample (n − 1), or the median absolute deviation, median |x − median x|, without any factor.
"""

import csv
import io
import math
import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from saccade.report.run import Run, read_run
from saccade.reproduce.jobs import Request, make_job, run_name, state
from saccade.reproduce.table import MEAN, MEDIAN, Measure, Row

PROVENANCE = ("hardware", "threads", "commit", "saccade", "python", "versions", "finished")


class Result(NamedTuple):
    """A finished run of a row: its numbers by name, as measured on the test images."""

    row: Row
    seed: int
    numbers: dict[str, float]
    run: Run


class Summary(NamedTuple):
    """A centre and a spread; NaN where there are too few numbers."""

    centre: float
    spread: float


def mean_and_deviation(values: Sequence[float]) -> Summary:
    """The mean and the standard deviation of the sample.

    >>> mean_and_deviation([1.0, 3.0])
    Summary(centre=2.0, spread=1.4142135623730951)
    """
    return Summary(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else math.nan)


def median_and_deviation(values: Sequence[float]) -> Summary:
    """The median and the median absolute deviation from it.

    >>> median_and_deviation([1.0, 2.0, 4.0, 9.0, 9.0])  # deviations 3 2 0 5 5
    Summary(centre=4.0, spread=3.0)
    """
    centre = statistics.median(values)
    spread = statistics.median([abs(value - centre) for value in values]) if len(values) > 1 else math.nan
    return Summary(centre, spread)


STATISTICS: dict[str, Callable[[Sequence[float]], Summary]] = {
    MEAN: mean_and_deviation,
    MEDIAN: median_and_deviation,
}


def collect(request: Request) -> list[Result]:
    """The finished runs of a table, in the order of its rows and seeds; those with other settings are left out."""
    results = []
    for row in request.table.rows:
        for seed in _seeds(request, row):
            # Weights do not matter here, and need not be given.
            job = make_job(request._replace(weights=request.weights or Path("weights")), row, seed)
            if state(job) == "finished":
                run = read_run(job.folder)
                results.append(Result(row, seed, _numbers(run, job.evaluation), run))
    return [result._replace(numbers=result.numbers | _learning(result, results)) for result in results]


def _seeds(request: Request, row: Row) -> list[int]:
    plan = row.plan(request.scale)
    if plan is None:
        return []
    begin = f"{run_name(plan)}-seed"
    names = [path.name.removeprefix(begin) for path in request.runs.glob(f"{begin}*") if path.is_dir()]
    return sorted(int(name) for name in names if name.isdecimal())


def _numbers(run: Run, name: str) -> dict[str, float]:
    evaluation = run.evaluations.get(name, {})
    numbers = {name: float(value) for name, value in evaluation.items() if isinstance(value, int | float)}
    if "multiply_adds" in evaluation:
        numbers["multiply_adds"] = float(evaluation["multiply_adds"]["total"])
    numbers["minutes"] = float(run.facts.get("seconds_of_training", math.nan)) / 60
    return numbers


def _learning(result: Result, results: Sequence[Result]) -> dict[str, float]:
    """How fast it learnt, against the best run on the same data."""
    goal = max(each.numbers.get("accuracy", 0.0) for each in results if each.row.group == result.row.group)
    steps, accuracy = result.run.series("val/accuracy")
    reached = {share: steps[accuracy >= share / 100 * goal] for share in (50, 90)}
    fast = {f"steps_to_{share}": float(found[0]) if len(found) else math.nan for share, found in reached.items()}
    return fast | {"failed": float(result.numbers.get("accuracy", 0.0) < goal / 2)}


def values_of(results: Sequence[Result], row: Row, measure: Measure) -> list[float]:
    """What the runs of a row have measured, as the table shows it."""
    numbers = [each.numbers.get(measure.name, math.nan) for each in results if each.row.name == row.name]
    return [measure.scale * number for number in numbers if not math.isnan(number)]


def show(values: Sequence[float], measure: Measure, statistic: str) -> str:
    """Centre and spread in words.

    >>> show([0.5, 0.7], Measure("ap", "AP", digits=2), "mean ± s.d.")
    '0.60 ± 0.14'
    """
    if not values:
        return "–"
    if measure.counted:
        return f"{sum(values):.0f} of {len(values)}"
    centre, spread = STATISTICS[statistic](values)
    return f"{centre:,.{measure.digits}f}" + ("" if math.isnan(spread) else f" ± {spread:.{measure.digits}f}")


def markdown(request: Request, results: Sequence[Result]) -> str:
    """The table: rows without a run have "–"."""
    table, scale = request.table, request.scale
    head = ("", "paper", *(f"ours: {measure.title}" for measure in table.measures), "runs", "minutes a run")
    lines = [head, ("---", *["---:"] * (len(head) - 1))]
    for row in (row for row in table.rows if row.plan(scale) or row.paper != "–"):
        mine = [each for each in results if each.row.name == row.name]
        minutes = [each.numbers["minutes"] for each in mine]
        ours = [show(values_of(results, row, measure), measure, table.statistic) for measure in table.measures]
        took = f"{statistics.fmean(minutes):.1f}" if minutes else "–"
        lines.append((row.label, row.paper, *ours, str(len(mine)), took))
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"# {table.title}\n\n{body}\n\n{_caption(request, results)}\n"


def _caption(request: Request, results: Sequence[Result]) -> str:
    table = request.table
    hardware = sorted({str(each.run.facts.get("hardware")) for each in results})
    threads = sorted({str(each.run.facts.get("threads")) for each in results})
    dates = sorted(str(each.run.facts.get("finished"))[:10] for each in results)
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    return (
        f"In the paper: {table.source}. Ours: scale {request.scale}, {table.statistic} over runs with other seeds, "
        f"test images, the model that was best in validation. {table.note}\n\n"
        f"{'; '.join(hardware)}, {' or '.join(threads)} threads a run; {when}. "
        f"Every run is in [{request.stem}.csv]({request.stem}.csv); "
        f"`saccade reproduce {table.name}{'' if request.scale == 'small' else f' --scale {request.scale}'}`."
    )


def table_of_runs(results: Sequence[Result]) -> str:
    """The CSV: row, seed, every number, and what the run was made with."""
    names = list(dict.fromkeys(name for each in results for name in each.numbers))
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("row", "seed", *names, *PROVENANCE))
    for each in results:
        numbers = [f"{each.numbers[name]:.6g}" if name in each.numbers else "" for name in names]
        writer.writerow((each.row.name, each.seed, *numbers, *_facts(each.run)))
    return text.getvalue()


def _facts(run: Run) -> Iterator[str]:
    for name in PROVENANCE:
        value = run.facts.get(name, "")
        yield (
            " ".join(f"{package}=={number}" for package, number in value.items()) if name == "versions" else str(value)
        )


def write_results(request: Request, results: Sequence[Result]) -> list[Path]:
    """Write both files whole, and return their paths."""
    request.out.mkdir(parents=True, exist_ok=True)
    texts = {".csv": table_of_runs(results), ".md": markdown(request, results)}
    written = []
    for suffix, text in texts.items():
        path = request.out / f"{request.stem}{suffix}"
        part = path.with_name(f"{path.name}.part")
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)
        written.append(path)
    return written
