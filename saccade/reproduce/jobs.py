"""(row, seed) → a run folder, the command that fills it, and how far it is.

A folder is named after the recipe, the flags and the seed, so tables that need the same run share it.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, NamedTuple

from saccade.recipes import SUFFIXES
from saccade.reproduce.table import Plan, Row, Scale, Table
from saccade.training.recipe import Recipe, load_recipe

State = Literal["missing", "begun", "finished", "other"]
# Where things lie is no property of a run.
PLACES = ("data.path", "data.generate.source", "data.workers", "model.features.weights")


class Request(NamedTuple):
    """What the user asked for.

    out:     folder of the results; runs are in `out/runs`.
    data:    folder that stands for `data` in recipes of data that is not generated.
    weights: file for the rows that start from ImageNet weights.
    """

    table: Table
    scale: Scale = "small"
    out: Path = Path("results")
    data: Path | None = None
    weights: Path | None = None

    @property
    def stem(self) -> str:
        """The name of the table's files, one for each scale."""
        return self.table.name if self.scale == "small" else f"{self.table.name}-{self.scale}"

    @property
    def runs(self) -> Path:
        """The folder of the runs of all tables."""
        return self.out / "runs"


class Job(NamedTuple):
    """One run of a row."""

    row: Row
    seed: int
    folder: Path
    recipe: Recipe
    command: tuple[str, ...]

    @property
    def name(self) -> str:
        """The row and the seed."""
        return f"{self.row.name}, seed {self.seed}"

    def beside(self, suffix: str) -> Path:
        """A file of the runner's own: not in the folder, which training must find empty."""
        return self.folder.with_name(f"{self.folder.name}.{suffix}")


def run_name(plan: Plan) -> str:
    """What its run folders are called, before the seed.

    >>> run_name(Plan("signs/ats", ("--model.selection.k=5", "--loss.entropy_coefficient=0.05")))
    'signs-ats-k=5-entropy_coefficient=0.05'
    """
    recipe = Path(plan.recipe).stem if plan.recipe.endswith(SUFFIXES) else plan.recipe.replace("/", "-")
    pairs = [flag.removeprefix("--").split("=", 1) for flag in plan.flags]
    return "-".join([recipe, *(f"{key.rpartition('.')[2]}={value}" for key, value in pairs)])


def list_jobs(request: Request, rows: Sequence[Row], *, seeds: int = 3) -> list[Job]:
    """Every run of `rows`: seeds 0, 1, … of rows whose order is the claim, seed 0 of the rest.

    The first seed of all rows comes first, so that a table is whole before it is exact.
    """
    wanted = [(seed, row) for row in rows for seed in range(seeds if row.seeds > 1 else 1)]
    return [make_job(request, row, seed) for seed, row in sorted(wanted, key=lambda pair: pair[0])]


def make_job(request: Request, row: Row, seed: int) -> Job:
    """The run of `row` with `seed`; a row without a plan at this scale, or without its weights, is refused."""
    plan = row.plan(request.scale)
    if plan is None:
        raise ValueError(f"the row {row.name} does not exist at scale {request.scale}")
    recipe = load_recipe(plan.recipe, plan.flags)
    flags = [*plan.flags, *_places(request, recipe), f"--seed={seed}"]
    if plan.pretrained:
        if request.weights is None:
            raise ValueError(
                f"the row {row.name} starts from ImageNet weights: give their file with --weights, "
                "or other rows with --rows"
            )
        flags.append(f"--model.features.weights={request.weights}")
    folder = request.runs / f"{run_name(plan)}-seed{seed}"
    command = (sys.executable, "-m", "saccade.cli", "train", plan.recipe, *flags, f"--out={folder}")
    return Job(row, seed, folder, load_recipe(plan.recipe, flags), command)


def _places(request: Request, recipe: Recipe) -> Iterator[str]:
    if request.scale == "small":
        yield "--data.workers=0"  # a run has one core
    if request.data and recipe.data.path and not recipe.data.generate:
        yield f"--data.path={request.data / Path(recipe.data.path).name}"
    source = (recipe.data.generate or {}).get("source")
    if request.data and source:
        yield f"--data.generate.source={request.data / Path(source).name}"


def state(job: Job) -> State:
    """How far a job is; "other" if its folder holds a run with other settings."""
    if not (job.folder / "recipe.yaml").is_file():
        return "missing"
    if _essence(load_recipe(job.folder / "recipe.yaml")) != _essence(job.recipe):
        return "other"
    facts = job.folder / "run.json"
    return "finished" if facts.is_file() and "finished" in json.loads(facts.read_text()) else "begun"


def _essence(recipe: Recipe) -> dict[str, Any]:
    tree = json.loads(json.dumps(asdict(recipe)))
    for place in PLACES:
        *parents, last = place.split(".")
        branch: Any = tree
        for name in parents:
            branch = branch.get(name) or {}
        branch.pop(last, None)
    return tree


def shell_line(job: Job) -> str:
    """The command as one would type it."""
    return " ".join(["saccade", *job.command[3:]]).replace(f"{os.getcwd()}{os.sep}", "")
