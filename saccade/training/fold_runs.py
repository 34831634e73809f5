"""One run for each fold, side by side on the cores or GPUs there are, and what all of them say together.

A fold's run is an ordinary run, `saccade train SOURCE --data.fold NAME --out RUN/fold-NAME`, in a process of its own.
So it chooses by itself, from its own training images, whatever is chosen; and it resumes by itself. What is finished
is left alone.
"""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from saccade.data.folds import fold_names
from saccade.data.groups import same_files
from saccade.data.loading import has_folds
from saccade.data.records import Records, positive_class
from saccade.recipes import find_recipe
from saccade.runs import FoldFolder, RunFolder
from saccade.runs.fold_folder import FoldRow, OutOfFold
from saccade.tasks.task import describe_task
from saccade.training.agreement import check_labels, check_recipe
from saccade.training.batches import open_folds
from saccade.training.jobs_on_ray import jobs_on_ray
from saccade.training.recipe import DataOptions, Recipe, load_recipe, parse_recipe
from saccade.training.side_by_side import Failure, State, run_jobs

READING = ("--data.workers=", "--data.cache_gb=")  # change nothing that is learnt


class FoldJob(NamedTuple):
    """The run of one fold."""

    name: str
    folder: Path
    command: tuple[str, ...]
    evaluate: tuple[str, ...] = ()

    def state(self) -> State:
        """How far it is; whether its settings are those of the command was looked at before."""
        folder = RunFolder(self.folder)
        return "missing" if not folder.is_run else "finished" if folder.finished else "begun"


def read_source(source: str, flags: Sequence[str]) -> Recipe:
    """The recipe that SOURCE names, or the default one for the data that it is; with what `flags` change."""
    return load_recipe(source, flags) if find_recipe(source) else parse_recipe([f"--data.path={source}", *flags])


def wants_folds(data: DataOptions) -> bool:
    """Whether one run for each fold is asked for, by `folds` or by a column of the table."""
    if data.fold is not None or data.folds == 0:
        return False
    return bool(data.folds) or (data.path is not None and data.generate is None and has_folds(data.path))


def train_folds(
    source: str,
    folder: Path | str,
    flags: Sequence[str] = (),
    *,
    minutes: float | None = None,
    at_once: int | None = None,
    ray: str | None = None,
    say: Callable[[str], None] = print,
) -> list[Failure]:
    """Train the run of each fold in `folder`, or resume there, and join what they said; returns what failed.

    source:  a recipe or data, as `saccade train` takes it, and `flags`, each `--key=value`.
    minutes: how long each may train at most, if that is said of it.
    at_once: runs side by side (default: one for each GPU, or core).
    ray:     the address of a Ray cluster to run them on; source and folder are there for all its machines.

    >>> train_folds("parts/labels.csv", "runs/parts", ["--data.folds=5"])  # doctest: +SKIP
    """
    folds, recipe = FoldFolder(folder), read_source(source, flags)
    if sys.platform == "win32":
        raise ValueError(
            "runs side by side need locks and process groups that Windows lacks: use its Linux subsystem (WSL), or "
            "train the folds one by one with --data.fold"
        )
    check_recipe(recipe)
    records = open_folds(recipe.data, seed=recipe.seed)
    check_labels(recipe, records)
    for note in records.notes:
        say(note)
    names, positive = fold_names(records), positive_class(records, recipe.positive)
    essential = sorted(flag for flag in flags if not flag.startswith(READING))
    flags_given = dict(flag.removeprefix("--").split("=", 1) for flag in essential)
    task = describe_task(records.task, [record.label for record in records.records], records.questions)
    place = source if find_recipe(source) else os.path.abspath(source)
    folds.claim(source=place, flags=flags_given, folds=[*names], task=task)
    if positive:  # the same in every fold, so that all can be joined
        flags = [*(flag for flag in flags if not flag.startswith("--positive=")), f"--positive={positive}"]
    length = [f"--minutes={minutes:g}"] if minutes else []
    jobs = [_job(folds, name, source, [*flags, *length]) for name in names]
    if ray:
        with jobs_on_ray(ray, at_once or len(jobs), gpus=0 if recipe.accelerator == "cpu" else recipe.devices) as share:
            failures = run_jobs(jobs, at_once=share.at_once, say=say, start=share.start)
    else:
        places = _gpus(recipe)
        limit = at_once or len(places) or (1 if recipe.accelerator == "gpu" else os.cpu_count() or 1)
        failures = run_jobs(jobs, at_once=min(limit, len(jobs)), say=say, gpus=places)
    if not failures:
        join_folds(folds, records)
    return failures


def _job(folds: FoldFolder, name: str, source: str, flags: Sequence[str]) -> FoldJob:
    folder = folds.run(name).path
    words = (source, *flags, f"--data.fold={name}", f"--out={folder}")
    return FoldJob(f"fold {name}", folder, (sys.executable, "-m", "saccade.cli", "train", *words))


def _gpus(recipe: Recipe) -> list[str]:
    """The GPUs, one for each run side by side; none where a run takes several, or none is used."""
    import torch

    if recipe.accelerator == "cpu" or recipe.devices > 1 or not torch.cuda.is_available():
        return []
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return visible or [str(number) for number in range(torch.cuda.device_count())]


def join_folds(folds: FoldFolder, records: Records) -> OutOfFold:
    """Put the test predictions of all folds into one table, in the order of the folds."""
    copies = [places for places in same_files(records.records) if len({records.records[p].fold for p in places}) > 1]
    repeated = {os.path.abspath(records.records[place].image) for places in copies for place in places}
    group = {os.path.abspath(record.image): record.group for record in records.records}
    tables = {name: run.predictions()["test"] for name, run in folds.runs().items()}
    rows = (
        FoldRow(row, name, group.get(row.image, ""), row.image in repeated)
        for name, table in tables.items()
        for row in table.rows
    )
    first = next(iter(tables.values()))
    found = OutOfFold(first.classes, tuple(rows), first.task, first.questions)
    folds.write_out_of_fold(found)
    return found


def join_again(folds: FoldFolder) -> OutOfFold:
    """The same, of runs that were evaluated anew."""
    recipe = load_recipe(next(iter(folds.runs().values())).recipe_file)
    return join_folds(folds, open_folds(recipe.data, seed=recipe.seed))
