"""Recipe → run folder: train, keep the best model, test it, write the report.

    RUN/recipe.yaml     the resolved recipe              RUN/run.json      seed, versions, commit, hardware, times
    RUN/metrics.csv     numbers per step                 RUN/tensorboard   the same, and pictures
    RUN/best, RUN/last  models for `load_model`          RUN/checkpoints   what the run needs to go on
    RUN/evaluation      what the best model says of each image, and how good that is
    RUN/panels          how the selection sharpened      RUN/report.html   all of it to look at

A folder with a run in it goes on where it was, unless it came to nothing; a finished one is left as it is.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import lightning
import torch
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.utilities import rank_zero_only
from rich.console import Console

from saccade.building import build_model, load_model
from saccade.config import ModelConfig
from saccade.data.dataset import ImageDataset, batch_of_one
from saccade.data.loading import load_as_given, source_name
from saccade.data.records import UNSPLIT, DataError, Records
from saccade.evaluation import wilson_interval
from saccade.report.page import write_report
from saccade.runs import RunFolder
from saccade.runs.run_facts import Facts
from saccade.system import System
from saccade.training.batches import open_records, open_split, with_validation
from saccade.training.callbacks import Checkpoints, CollapseWatch, Panels, Progress
from saccade.training.callbacks.checkpoints import latest_whole
from saccade.training.folder import check_folder
from saccade.training.log import CSVLog
from saccade.training.recipe import Recipe, dump_recipe, load_recipe
from saccade.training.task import Task
from saccade.training.testing import save_evaluation
from saccade.training.trainer import interruptible, make_trainer


def train(recipe: Recipe, folder: Path | str, *, console: Console | None = None) -> Path:
    """Train as `recipe` says in `folder`, or go on there, and return the folder.

    >>> train(load_recipe("signs/perturbed"), "runs/signs")  # doctest: +SKIP
    """
    # Processes that train together share the folder; of several machines none knows here which one it is.
    first = getattr(rank_zero_only, "rank", 0) == 0
    files = RunFolder(folder, writes=first)
    folder, console = files.path, console or Console()
    check_folder(files, recipe)
    if files.finished:
        console.print(f"{folder} is finished; give another folder to train again", soft_wrap=True)
        if not files.report_file.is_file():  # it was stopped between the two
            _show_report(folder, console)
        return folder
    task = make_task(recipe)
    _show_notes(task.data["train"].records, console)
    with files.alone() if first and recipe.nodes == 1 else nullcontext():
        files.claim(dump_recipe(recipe))
        parameters = sum(p.numel() for p in task.model.parameters())
        facts = files.begin(
            seed=recipe.seed, parameters=parameters, phases=_phases(recipe), accelerator=recipe.accelerator
        )
        _fit(task, files, facts, console)
        for split in ("val", "test"):
            if split in task.data:
                summary = _evaluate(folder, load_model(folder / "best"), task.data[split], split, recipe, console)
                _show_accuracy(summary, console)
        facts.finish()
        _show_report(folder, console)
    return folder


def make_task(recipe: Recipe) -> Task:
    """The data of a run and its model before the first step: the same weights for the same seed."""
    lightning.seed_everything(recipe.seed, verbose=False)
    records = open_records(recipe.data, seed=recipe.seed)
    data = {
        split: open_split(records, split, recipe.data, recipe.model.preparation)
        for split, n in records.counts().items()
        if any(n.values())
    }
    for split in data.keys() - {"train"}:
        if len(data[split]) < (processes := recipe.devices * recipe.nodes):
            raise DataError(
                f"{records.root}: {len(data[split])} images in the split {split} and {processes} processes (devices · "
                "nodes), which need one each: train with fewer --devices"
            )
    if recipe.final:
        data["train"] = open_split(with_validation(records), "train", recipe.data, recipe.model.preparation)
    return Task(build_model(model_config(recipe, records, data["train"])), recipe, data)


@rank_zero_only
def _show_notes(records: Records, console: Console) -> None:
    for note in records.notes:
        console.print(note, soft_wrap=True, highlight=False, markup=False)


@rank_zero_only
def _show_accuracy(summary: Mapping[str, Any], console: Console) -> None:
    accuracy, count = summary["accuracy"], summary["images"]
    low, high = (f"{100 * end:.1f}" for end in wilson_interval(round(accuracy * count), count))
    split = {"val": "validation", "test": "test"}[summary["split"]]
    console.print(f"{split} accuracy {accuracy:.1%} (95%: {low}–{high}), images: {count:,}", highlight=False)


@rank_zero_only
def _show_report(folder: Path, console: Console) -> None:
    console.print(f"report: {write_report(folder).absolute().as_uri()}", soft_wrap=True)


def model_config(recipe: Recipe, records: Records, dataset: ImageDataset) -> ModelConfig:
    """The recipe's stages, for these classes and images of the size of the first, as it is evaluated."""
    image = batch_of_one(dataset[0].image)
    return ModelConfig(
        **vars(recipe.model),
        num_classes=len(records.classes),
        image_size=recipe.model.preparation.seen_size((image.shape[-2], image.shape[-1])),
        classes=records.classes,
        imports=recipe.imports,
    )


def evaluate(
    folder: Path | str,
    *,
    split: str | None = None,
    data: Path | None = None,
    selection: Literal["soft", "discrete"] | None = None,
    console: Console | None = None,
) -> dict[str, Any]:
    """How good the best model of a run is on a split of its own data set or of another one; kept in the run folder.

    split:     by default test, or everything if other `data` has no splits.
    selection: how patches are chosen, if not as the recipe says; soft means with all of the recipe's σ or ε.
    """
    folder, console = Path(folder), console or Console()
    for needed in ("recipe.yaml", "best/config.json"):
        if not (folder / needed).is_file():
            raise FileNotFoundError(f"no {needed} in {folder}: expected a run folder, made by saccade train")
    # This process alone, on what this machine has, whatever trained it.
    recipe = replace(load_recipe(folder / "recipe.yaml"), accelerator="auto", devices=1, nodes=1)
    model, name = load_model(folder / "best"), split or "test"
    if data is None:
        records = open_records(recipe.data, seed=recipe.seed)
    else:
        records = _as_given(data, split, recipe.data.options)
    dataset = open_split(_with_classes(records, model.config.classes), name, recipe.data)
    console.print(f"{len(dataset)} images of {records.root}", soft_wrap=True, highlight=False)
    if data is not None:
        name = f"{source_name(data)}-{name}"
    if selection is not None:
        model, name = _choosing(model, selection), f"{name}-{selection}"
    return _evaluate(folder, model, dataset, name, recipe, console)


def _as_given(data: Path, split: str | None, options: Mapping[str, str]) -> Records:
    """Another data set with its splits; of one that has none everything is for the test, since nothing is trained."""
    records = load_as_given(data, **options)
    if any(record.split != UNSPLIT for record in records.records):
        return records
    if split is not None:
        raise DataError(f"{data} has no splits: leave out --split, and all of its images are evaluated")
    return records._replace(records=tuple(record._replace(split="test") for record in records.records))


def _choosing(model: System, selection: Literal["soft", "discrete"]) -> System:
    """The same model that chooses patches softly, or discretely."""
    if not hasattr(getattr(model, "selection", None), "discrete"):
        system, name = model.config.system, model.config.selection["name"]
        raise ValueError(
            f"the model ({system}, selection {name}) has no choice between soft and discrete patches, only models with "
            "the selection perturbed or sinkhorn have: leave --selection out"
        )
    discrete = {"soft": False, "discrete": True}[selection]
    # Built anew, so that an aggregation that cannot take the other slots is refused.
    other = build_model(replace(model.config, selection={**model.config.selection, "discrete": discrete}))
    other.load_state_dict(model.state_dict())
    return other.eval()


def _with_classes(records: Records, classes: tuple[str, ...]) -> Records:
    """The records with the model's class numbers."""
    if unknown := [name for name in records.classes if name not in classes]:
        raise DataError(
            f"{records.root}: the model has no class {', '.join(map(repr, unknown))}; it knows {', '.join(classes)}"
        )
    return records._replace(classes=classes)


def _evaluate(
    folder: Path, model: System, dataset: ImageDataset, name: str, recipe: Recipe, console: Console
) -> dict[str, Any]:
    torch.manual_seed(recipe.seed)  # a soft selection draws its noise in evaluation, too
    task = Task(model, recipe, {"test": dataset})
    trainer = make_trainer(recipe, folder, callbacks=[Progress(console)])
    with interruptible():
        trainer.test(task, verbose=False)
    return save_evaluation(task, trainer, folder, name)


def _phases(recipe: Recipe) -> list[dict[str, Any]]:
    warm_up, end = recipe.warm_up.steps, recipe.total_steps
    phases = [{"name": "warm-up", "from": 0, "to": warm_up}, {"name": "training", "from": warm_up, "to": end}]
    return phases if warm_up else phases[1:]


def _fit(task: Task, files: RunFolder, facts: Facts, console: Console) -> None:
    folder, checkpoint = files.path, latest_whole(files.checkpoints)
    step = int(checkpoint.stem) if checkpoint else 0
    if checkpoint:
        console.print(f"going on at step {step} of {folder}", soft_wrap=True)
    logs = [
        CSVLog(files.open_metrics(step=step)),
        TensorBoardLogger(folder, "tensorboard", "", purge_step=step + 1),
    ]
    # Counted at every checkpoint: of a run that is killed, nothing more than what it will train again is left out.
    best_by = None if task.recipe.final else task.recipe.best_by
    checkpoints = Checkpoints(folder, best_by=best_by, saved=facts.count_seconds)
    callbacks = [Progress(console), CollapseWatch(files), Panels(files), checkpoints]
    trainer = make_trainer(task.recipe, folder, callbacks=callbacks, logger=logs)
    facts.start_clock()
    try:
        with checkpoints.listening(), interruptible():
            trainer.fit(task, ckpt_path=checkpoint)
    finally:
        facts.count_seconds()
    if not (folder / "best").is_dir():
        raise ValueError(
            f"no model of {folder} can be kept: the loss was not a number at any validation; train again in another "
            "folder with a lower optimizer.lr, a longer schedule.warm_up, optimizer.clip_norm 1, or precision 32-true"
        )
