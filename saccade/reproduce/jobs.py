"""(row, seed) → a run folder, the commands that fill it, and how far it is.

A folder is named after the recipe, the flags and the seed, so rows and tables that need the same run share it.
"""

import json
import os
import re
import shlex
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jsonargparse import ArgumentError

from saccade.recipes import SUFFIXES
from saccade.reproduce.table_types import Plan, Row, Scale, Table
from saccade.runs import RunFolder
from saccade.training.phases import Training
from saccade.training.recipe import Recipe, load_recipe, parse_recipe
from saccade.training.side_by_side import State

# Where things lie, and how they are read, is not a property of a run.
PLACES = ("data.path", "data.generate.source", "data.workers", "data.cache_gb", "model.features.weights")


SACCADE = (sys.executable, "-m", "saccade.cli")


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
    def title(self) -> str:
        """The table's, and whether data and networks are the paper's."""
        title = self.table.title
        return title if self.table.ours or self.scale == "full" else f"{title}, small scale"

    @property
    def runs(self) -> Path:
        """The folder of the runs of all tables."""
        return self.out / "runs"


class Job(NamedTuple):
    """One run of a row.

    command:    trains it.
    evaluation: the one that the row is read from.
    evaluate:   makes that one, where training does not.
    own:        of a run that chooses its own recipe, what is asked for; `recipe` has nothing else.
    """

    row: Row
    seed: int
    folder: Path
    recipe: Recipe
    command: tuple[str, ...]
    evaluation: str = "test"
    evaluate: tuple[str, ...] = ()
    own: str = ""

    @property
    def name(self) -> str:
        """The row and the seed."""
        return f"{self.row.name}, seed {self.seed}"

    def state(self) -> State:
        """How far it is: "trained" if only its evaluation is missing, "other" if the folder has another run."""
        folder = RunFolder(self.folder)
        if not folder.is_run:
            return "missing"
        try:
            same, finished = self._is_there(folder), folder.finished
        except (ArgumentError, ValueError):  # of another version
            return "other"
        if not (same and finished):
            return "begun" if same else "other"
        return "trained" if self.evaluate and not folder.evaluated(self.evaluation) else "finished"

    def _is_there(self, folder: RunFolder) -> bool:
        """Whether the folder has this run; of one that chooses its own recipe, the folder's name tells."""
        return bool(self.own) or _settings(folder) == essence(self.recipe)


def run_name(plan: Plan) -> str:
    """What its run folders are called, before the seed.

    >>> run_name(Plan("signs/ats", ("--model.selection.k=5", "--training.loss.entropy_coefficient=0.05")))
    'signs-ats-k=5-entropy_coefficient=0.05'
    """
    recipe = Path(plan.recipe).stem if plan.recipe.endswith(SUFFIXES) else plan.recipe.replace("/", "-")
    recipe = f"own-{Path(plan.recipe).name}" if plan.own else recipe
    pairs = [flag.removeprefix("--").split("=", 1) for flag in plan.flags]
    pairs = [(key.rpartition(".")[2], re.sub(r"[^\w.+-]", "", value)) for key, value in pairs]
    return "-".join([recipe, *(f"{key}={value}" for key, value in pairs)])


def list_jobs(
    request: Request, rows: Sequence[Row], *, seeds: int | None = None, without: Collection[tuple[str, int]] = ()
) -> list[Job]:
    """Every run of `rows`: seeds 0, 1, …, as many as each row asks for, or `seeds` of each.

    The first seed of all rows comes first, so that a table is whole before it is exact.

    without: names of rows and seeds to leave out.
    """
    wanted = [(seed, row) for row in rows for seed in range(seeds or row.runs(request.scale))]
    wanted = [(seed, row) for seed, row in wanted if (row.name, seed) not in without]
    return [make_job(request, row, seed) for seed, row in sorted(wanted, key=lambda pair: pair[0])]


def make_job(request: Request, row: Row, seed: int) -> Job:
    """The run of `row` with `seed`; a row without a plan at this scale, or without its weights, is refused."""
    plan = row.plan(request.scale)
    if plan is None:
        raise ValueError(f"the row {row.name} does not exist at scale {request.scale}")
    if plan.pretrained and request.weights is None:
        raise ValueError(
            f"the row {row.name} starts from ImageNet weights: give their file with --weights, "
            "or other rows with --rows"
        )
    weights = (f"--model.features.weights={request.weights}",) if plan.pretrained else ()
    if plan.own:
        return _own_job(request, row, seed, plan, weights)
    recipe = _load(plan.recipe, plan.flags)
    flags = (*plan.flags, *_places(request, recipe), f"--seed={seed}", *weights)
    folder = request.runs / f"{run_name(plan)}-seed{seed}"
    command = (*SACCADE, "train", plan.recipe, *flags, f"--out={folder}")
    job = Job(row, seed, folder, _load(plan.recipe, flags), command)
    if plan.selection is None:
        return job
    evaluate = (*SACCADE, "evaluate", str(folder), f"--selection={plan.selection}")
    return job._replace(evaluation=f"test-{plan.selection}", evaluate=evaluate)


def _own_job(request: Request, row: Row, seed: int, plan: Plan, weights: Sequence[str]) -> Job:
    """`saccade train DATA`: what it asks for, and how the images are made."""
    source = plan.recipe if plan.made_by or not request.data else str(request.data / Path(plan.recipe).name)
    flags = (*plan.flags, f"--seed={seed}", *weights)
    asked = [f"--data.path={source}", *(flag for flag in flags if not flag.startswith("--minutes="))]
    if plan.made_by:
        places = [flag for flag in _places(request, _load(plan.made_by)) if flag.startswith("--data.generate.")]
        asked.append(f"--data.generate={json.dumps(_load(plan.made_by, tuple(places)).data.generate)}")
    folder = request.runs / f"{run_name(plan)}-seed{seed}"
    command = (*SACCADE, "train", source, *flags, f"--out={folder}")
    return Job(row, seed, folder, parse_recipe(asked), command, own=run_name(plan))


def _places(request: Request, recipe: Recipe) -> Iterator[str]:
    if request.scale == "small":
        yield "--data.workers=0"  # a run has one core
        yield "--data.cache_gb=1"  # and would spend much of it on decoding
    if request.data and recipe.data.path and not recipe.data.generate:
        yield f"--data.path={request.data / Path(recipe.data.path).name}"
    source = (recipe.data.generate or {}).get("source")
    if request.data and source:
        yield f"--data.generate.source={request.data / Path(source).name}"


def _settings(folder: RunFolder) -> dict[str, Any]:
    """What a run was made with."""
    return essence(_load(folder.recipe_file, content=folder.recipe_text()))


@cache
def _load(source: Path | str, flags: tuple[str, ...] = (), *, content: str = "") -> Recipe:
    """The recipe, kept since reading takes long and is asked for often; a file with other `content` is read anew."""
    return load_recipe(source, flags)


def essence(recipe: Recipe) -> dict[str, Any]:
    """Every setting but where things lie, and but the defaults: keys that later versions add change nothing.

    A training counts by its phases: its name alone would not tell if what it stands for changed.
    """
    untrained = replace(recipe, training=Training())  # told below by its phases
    tree = json.loads(json.dumps(_unlike(untrained, Recipe())))
    for place in PLACES:
        *parents, last = place.split(".")
        branch: Any = tree
        for name in parents:
            branch = branch.get(name) or {}
        branch.pop(last, None)
    tree["training"] = recipe.plan.describe()
    return {key: value for key, value in tree.items() if value not in ({}, None)}


def _unlike(options: Any, default: Any) -> dict[str, Any]:
    """What is not as by default, of options within options, too."""
    unlike = {}
    for field in fields(options):
        value, usual = getattr(options, field.name), getattr(default, field.name)
        if value != usual:
            within = is_dataclass(value) and is_dataclass(usual)
            unlike[field.name] = _unlike(value, usual) if within else value
    return unlike


def shell_lines(job: Job) -> list[str]:
    """The commands as one would type them."""
    lines = [shlex.join(["saccade", *command[3:]]) for command in (job.command, job.evaluate) if command]
    return [line.replace(f"{os.getcwd()}{os.sep}", "") for line in lines]
