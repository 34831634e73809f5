"""Finished runs → `Result`s: from their folders and, of runs that were made elsewhere, from the lines of `TABLE.csv`.

A line counts as long as its settings are still those of the row: it has their fingerprint.
"""

import csv
import glob
import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from saccade.reproduce.jobs import Job, Request, essence, make_job, run_name
from saccade.reproduce.table_types import Row
from saccade.runs import RunFolder
from saccade.runs.run_contents import MEAN_OVER_CLASSES, Run

PROVENANCE = ("hardware", "threads", "commit", "saccade", "python", "versions", "finished")
LEARNING = ("steps_to_50", "steps_to_90", "failed")  # told anew each time: they depend on the best run
NOT_NUMBERS = ("row", "seed", "settings", "positive", "validation", *LEARNING, *PROVENANCE)
LAST_STEPS = 0.9  # where the share of the steps begins that train accuracy is told of


class Result(NamedTuple):
    """A finished run of a row.

    settings: fingerprint of everything that was set.
    positive: the class whose average precision and AUROC the numbers have, or that they are means over classes.
    numbers:  as measured on the test images, by name.
    curve:    (step, validation accuracy), one after the other.
    facts:    what the run was made with, as text.
    run:      its folder's content; None if only its line in the table is here.
    """

    row: Row
    seed: int
    settings: str
    positive: str
    numbers: dict[str, float]
    curve: tuple[tuple[int, float], ...]
    facts: dict[str, str]
    run: Run | None = None


def collect(request: Request) -> list[Result]:
    """The finished runs of a table, in the order of its rows and seeds; those with other settings are left out."""
    results, lines = [], _read_lines(request)
    for row in request.table.rows:
        if row.plan(request.scale) is not None:
            here = {result.seed: result for result in _runs(request, row)}
            elsewhere = _of_row(request, row, lines)
            results += sorted({**elsewhere, **here}.values(), key=lambda result: result.seed)
    return [result._replace(numbers=result.numbers | _learning(result, results)) for result in results]


def made_elsewhere(request: Request) -> set[tuple[str, int]]:
    """Names of rows and seeds whose line is in the table's CSV and whose folder is not here."""
    return {(result.row.name, result.seed) for result in collect(request) if result.run is None}


def job_of(request: Request, row: Row, seed: int) -> Job:
    """The run of `row` with `seed`, to read about it."""
    # Weights do not matter here, and need not be given.
    return make_job(request._replace(weights=request.weights or Path("weights")), row, seed)


def fingerprint(job: Job) -> str:
    """Twelve digits that change with any setting that was asked for, and with what is measured."""
    text = json.dumps([essence(job.recipe), job.evaluation, *filter(None, [job.own])], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _runs(request: Request, row: Row) -> Iterator[Result]:
    plan = row.plan(request.scale)
    assert plan is not None
    begin = f"{run_name(plan)}-seed"
    seeds = [path.name.removeprefix(begin) for path in request.runs.glob(f"{glob.escape(begin)}*") if path.is_dir()]
    for seed in (int(name) for name in seeds if name.isdecimal()):
        job = job_of(request, row, seed)
        if job.state() == "finished":
            run = RunFolder(job.folder).read()
            steps, accuracy = run.series("val/accuracy")
            curve = tuple(zip((int(step) for step in steps), map(float, accuracy), strict=True))
            told = run.evaluations.get(job.evaluation, {}).get("positive", MEAN_OVER_CLASSES)
            numbers = _numbers(run, job.evaluation)
            yield Result(row, seed, fingerprint(job), told, numbers, curve, as_text(run.facts), run)


def _numbers(run: Run, name: str) -> dict[str, float]:
    evaluation = run.evaluations.get(name, {})
    numbers = {name: float(value) for name, value in evaluation.items() if isinstance(value, int | float)}
    if "multiply_adds" in evaluation:
        numbers["multiply_adds"] = float(evaluation["multiply_adds"]["total"])
    if name in run.predictions:
        said = Counter(row.predicted for row in run.predictions[name].rows)
        numbers["same_answer"] = max(said.values()) / said.total()  # share of the images
    if not math.isnan(learnt := _train_accuracy(run)):
        numbers["train_accuracy"] = learnt
    numbers["minutes"] = float(run.facts.get("seconds_of_training", math.nan)) / 60
    return numbers


def _train_accuracy(run: Run) -> float:
    """Of the last tenth of the steps, on the batches as they were trained on: what was logged of every tenth step."""
    steps, accuracy = run.series("train/accuracy")
    last = accuracy[steps >= LAST_STEPS * steps[-1]] if len(steps) else accuracy
    return float(last.mean()) if len(last) else math.nan


def as_text(facts: Mapping[str, Any]) -> dict[str, str]:
    """The facts of `PROVENANCE` as the CSV has them."""
    versions = " ".join(f"{package}=={number}" for package, number in facts.get("versions", {}).items())
    return {name: str(facts.get(name, "")) for name in PROVENANCE} | {"versions": versions}


def _read_lines(request: Request) -> list[dict[str, str]]:
    """The lines of the table's CSV."""
    path = request.out / f"{request.stem}.csv"
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if not {"row", "seed", "settings"} <= {*(reader.fieldnames or ())}:
            raise ValueError(
                f"{path} is not a table of runs: it has no columns row, seed and settings; mend or delete it"
            )
        return list(reader)


def outdated(request: Request) -> list[str]:
    """Runs in the table's CSV that are of no row and seed as these are set now; writing the table drops them."""
    kept = {(result.row.name, result.seed, result.settings) for result in collect(request)}
    lines = [(line["row"], int(line["seed"]), line["settings"]) for line in _read_lines(request)]
    return [f"{row}, seed {seed}" for row, seed, settings in lines if (row, seed, settings) not in kept]


def _of_row(request: Request, row: Row, lines: Sequence[dict[str, str]]) -> dict[int, Result]:
    """What they tell of a row, by seed."""
    found = [_read_line(row, line) for line in lines if line["row"] == row.name]
    # With other settings it would be another run.
    return {each.seed: each for each in found if each.settings == fingerprint(job_of(request, row, each.seed))}


def _read_line(row: Row, line: dict[str, str]) -> Result:
    numbers = {name: float(text) for name, text in line.items() if name not in NOT_NUMBERS and text}
    pairs = (point.split(":") for point in line.get("validation", "").split())
    curve = tuple((int(step), float(accuracy)) for step, accuracy in pairs)
    facts = {name: line.get(name, "") for name in PROVENANCE}
    positive = line.get("positive") or MEAN_OVER_CLASSES
    return Result(row, int(line["seed"]), line.get("settings", ""), positive, numbers, curve, facts)


def curve_text(result: Result) -> str:
    """The validation curve as the CSV has it: `200:0.21 400:0.35`."""
    return " ".join(f"{step}:{accuracy:.4g}" for step, accuracy in result.curve)


def _learning(result: Result, results: Sequence[Result]) -> dict[str, float]:
    """How fast it learned, against the best run on the same data."""
    goal = max(each.numbers.get("accuracy", 0.0) for each in results if each.row.group == result.row.group)
    first = {
        share: next((step for step, accuracy in result.curve if accuracy >= share / 100 * goal), math.nan)
        for share in (50, 90)
    }
    failed = float(result.numbers.get("accuracy", 0.0) < goal / 2)
    return dict(zip(LEARNING, (float(first[50]), float(first[90]), failed), strict=True))
