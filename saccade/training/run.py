"""Recipe → run folder: train, keep the best model, and measure it on the validation and test images.

A folder with a run in it is resumed where it was, unless it came to nothing; a finished one is left as it is.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from lightning.fabric import Fabric, seed_everything
from rich.console import Console

from saccade.building import build_model
from saccade.config import ModelConfig
from saccade.data.dataset import ImageDataset, batch_of_one
from saccade.data.loading import load_as_given, source_name
from saccade.data.records import UNSPLIT, DataError, Records, positive_class
from saccade.data.typical_size import look_at
from saccade.evaluation import wilson_interval
from saccade.files import naming_what_is_full, shown
from saccade.options import read_options
from saccade.runs import RunFolder
from saccade.runs.run_facts import Facts
from saccade.system import System
from saccade.tasks.labels import questions_of
from saccade.tasks.task import describe_task
from saccade.training.agreement import check_labels, check_recipe
from saccade.training.batches import open_records, open_split, with_validation
from saccade.training.decisions import Wish, decide_run
from saccade.training.defaults import refuse_too_small, sample_sizes
from saccade.training.devices import make_fabric, share_norms
from saccade.training.evaluations import calibrate, run_through, save_evaluation
from saccade.training.folder import check_folder
from saccade.training.frozen import begin_frozen, try_tuning
from saccade.training.learner import Learner
from saccade.training.loop import fit
from saccade.training.machines import check_alike, check_processes, check_shared, launch, naming_lost
from saccade.training.observers import Progress
from saccade.training.recipe import Recipe, dump_recipe, load_recipe
from saccade.training.tracking import Tracker, check_logger, tracking

SHARES = ("accuracy", "exact_match")
HEADLINES = {
    "single": ("accuracy",),
    "multi": ("auroc", "average_precision", "f1", "exact_match"),
    "ordinal": ("accuracy", "kappa"),
    "regression": ("mean_absolute_error", "r2"),
    "questions": ("accuracy", "mean_absolute_error"),
}


def train(
    recipe: Recipe, folder: Path | str | RunFolder, *, records: Records | None = None, console: Console | None = None
) -> Path:
    """Train as `recipe` says in `folder`, or resume there, and return its path.

    records: the recipe's data set, if it was opened before.

    >>> train(load_recipe("signs/perturbed"), "runs/signs")  # doctest: +SKIP
    """
    files, console = folder if isinstance(folder, RunFolder) else RunFolder(folder), console or Console()
    recipe = recipe.found_from_anywhere()
    recipe.check_together()
    check_recipe(recipe)
    check_folder(files, recipe)
    check_logger(recipe.logger)
    check_processes(recipe)
    if files.finished:
        console.print(f"{files.path} is finished; give another folder to train again", soft_wrap=True, markup=False)
        return files.path
    fabric = make_fabric(recipe)
    seed_everything(recipe.seed, verbose=False)
    data = open_data(recipe, records)
    learner = make_learner(recipe, data)
    for dataset in data.values():
        refuse_too_small(dataset.records, learner.model)
    launch(fabric, recipe, console)
    files.writes = fabric.is_global_zero
    console = console if fabric.is_global_zero else Console(quiet=True)
    for note in data["train"].records.notes:
        console.print(note, soft_wrap=True, highlight=False, markup=False)
    if positive := learner.model.config.positive:
        told = f"average precision and AUROC are those of the class {positive!r}"
        console.print(shown(told), soft_wrap=True, highlight=False, markup=False)
    with files.alone() if files.writes else nullcontext(), naming_lost(recipe):
        check_alike(fabric, recipe, data)
        _train_in(files, fabric, learner, data, console)
    return files.path


def _train_in(
    files: RunFolder, fabric: Fabric, learner: Learner, data: Mapping[str, ImageDataset], console: Console
) -> None:
    recipe = learner.recipe
    files.claim(dump_recipe(recipe))
    check_shared(fabric, files)
    facts = files.begin(
        seed=recipe.seed,
        parameters=sum(p.numel() for p in learner.model.parameters()),
        phases=recipe.plan.describe(),
        accelerator=recipe.accelerator,
    )
    with tracking(recipe.logger, files, facts) as tracker:
        _train_tracked(files, fabric, learner, data, facts, tracker, console)
    facts.finish()


def _train_tracked(
    files: RunFolder,
    fabric: Fabric,
    learner: Learner,
    data: Mapping[str, ImageDataset],
    facts: Facts,
    tracker: Tracker,
    console: Console,
) -> None:
    recipe = learner.recipe
    facts.start_clock()
    try:
        with naming_what_is_full(files.path):
            if recipe.training.frozen:
                learner = begin_frozen(files, fabric, learner, data, facts, console)
            tunes = recipe.steps > 0
            if tunes and recipe.training.trial:
                tunes = try_tuning(files, fabric, recipe, data, facts, console)
            if not tunes:
                files.keep(files.frozen_blind)
            if fabric.world_size > 1 and fabric.device.type == "cuda":
                learner.model = share_norms(learner.model)
            step = fit(fabric, learner, data, files, facts, console, tracker).step if tunes else 0
    finally:
        facts.count_seconds()
    fabric.barrier()  # the best model is on the disk
    if not files.best.is_dir():
        raise ValueError(
            f"no model of {files.path} can be kept: the loss was not a number at any validation; train again in "
            "another folder with a lower optimizer.lr, a longer schedule.warm_up, optimizer.clip_norm 1, or precision "
            "32-true"
        )
    for split in ("val", "test"):
        if split in data:
            best, fits = files.load_best(), recipe.calibrate and split == "val" and not recipe.final
            summary = _evaluate(files, fabric, best, data[split], split, recipe, console, calibrates=fits)
            _show_numbers(summary, console)
            tracker.add(recipe.plan.total, _scalars(summary, f"best/{split}"))
        if split == "val" and recipe.training.frozen and step == 0:
            console.print("kept: the frozen start, with heads that saw the validation images too")
            _keep_seeing(files)
            facts.note(saw_validation=True)
        fabric.barrier()


def _scalars(summary: Mapping[str, Any], prefix: str) -> dict[str, float]:
    return {f"{prefix}/{name}": value for name, value in summary.items() if isinstance(value, float)}


def _keep_seeing(files: RunFolder) -> None:
    """The temperature remains that of the model which had not seen the validation images."""
    task = files.load_best().config.task
    files.keep(files.frozen_seeing)
    files.change_best(task=task)


def open_data(recipe: Recipe, records: Records | None = None) -> dict[str, ImageDataset]:
    """The images of each split that has any; what cannot be shared among the processes is refused."""
    records = records or open_records(recipe.data, seed=recipe.seed)
    check_labels(recipe, records)
    prepared = partial(open_split, data=recipe.data, preparation=recipe.model.preparation)
    data = {split: prepared(records, split) for split, count in records.sizes().items() if count}
    for split in data.keys() - {"train"}:
        if len(data[split]) < (processes := recipe.devices * recipe.nodes):
            raise DataError(
                f"{records.root}: {len(data[split])} images in the split {split} and {processes} processes (devices · "
                "nodes), which need one each: train with fewer --devices"
            )
    if recipe.final:
        data["train"] = prepared(with_validation(records), "train")
    positive = positive_class(records.split("train"), recipe.positive)
    if recipe.best_by == "average_precision" and positive and not records.counts()["val"][positive]:
        raise DataError(
            f"{records.root}: no validation image of the class {positive!r}, so best_by average_precision cannot be "
            "told; add some, or choose another best_by"
        )
    return data


def make_learner(recipe: Recipe, data: Mapping[str, ImageDataset]) -> Learner:
    """The model of a run before the first step, ready to learn: the same weights for the same state of randomness."""
    return Learner(build_model(model_config(recipe, data["train"])), recipe, data["train"])


def _show_numbers(summary: Mapping[str, Any], console: Console) -> None:
    count, split = summary["images"], {"val": "validation", "test": "test"}[summary["split"]]
    said = []
    for name in HEADLINES[summary["task"]["name"]]:
        if name not in summary:
            continue
        value, plain = summary[name], name.replace("_", " ").replace("auroc", "AUROC")
        told = f"{value:.1%}" if name in SHARES else f"{value:.4g}"
        if name == "accuracy" and summary["task"]["name"] in ("single", "ordinal"):
            low, high = (f"{100 * end:.1f}" for end in wilson_interval(round(value * count), count))
            told += f" (95%: {low}–{high})"
        said.append(f"{plain} {told}")
    console.print(f"{split} {', '.join(said)}, images: {count:,}", highlight=False)


def model_config(recipe: Recipe, dataset: ImageDataset) -> ModelConfig:
    """The recipe's stages, for the classes of a data set and images of the size of the first, as it is evaluated.

    If that one is of another kind than most, it is the size of most.
    """
    image, records, classes = batch_of_one(dataset[0].image), dataset.records, dataset.records.classes
    size, preparation = (image.shape[-2], image.shape[-1]), recipe.model.preparation
    if preparation.resize is None and size in (images := look_at(sample_sizes(records, mpp=preparation.mpp))).odd:
        size = images.typical
    return ModelConfig(
        **vars(recipe.model),
        num_classes=len(classes) or 1,
        task=describe_task(records.task, [record.label for record in records.records], records.questions),
        image_size=preparation.seen_size(size),
        classes=classes,
        positive=positive_class(records, recipe.positive),
        imports=recipe.imports,
    )


def evaluate(
    folder: Path | str,
    *,
    split: str | None = None,
    data: Path | None = None,
    selection: Literal["soft", "discrete"] | None = None,
    positive: str | None = None,
    wish: Wish | None = None,
    console: Console | None = None,
) -> dict[str, Any]:
    """How good the best model of a run is on a split of its own data set or of another one; kept in the run folder.

    split:     by default test, or everything if other `data` has no splits.
    selection: how patches are chosen, if not as the recipe says; soft means with all of the recipe's σ or ε.
    positive:  the class whose average precision and AUROC are told, if not that of the run.
    wish:      what decisions are to do: a rule is chosen first, on the validation images, and kept with the model.
    """
    files, console = RunFolder(folder), console or Console()
    files.check()
    (wish or Wish()).check()
    # This process alone, on what this machine has, whatever trained it.
    recipe = replace(load_recipe(files.recipe_file), accelerator="auto", devices=1, nodes=1)
    if wish:
        for line in decide_run(files, open_records(recipe.data, seed=recipe.seed), wish, positive):
            console.print(shown(line), soft_wrap=True, highlight=False, markup=False)
    model, name = files.load_best(), split or "test"
    if data is None:
        records = open_records(recipe.data, seed=recipe.seed)
    else:
        records = _as_given(data, split, recipe.data.labels, recipe.data.options)
    records = _with_classes(records, model)
    if positive is not None:
        positive_class(records, positive)  # refuses what is no class
    dataset = open_split(records, name, recipe.data, model.config.preparation)
    console.print(f"{len(dataset)} images of {records.root}", soft_wrap=True, highlight=False, markup=False)
    if data is not None:
        name = f"{source_name(data)}-{name}"
    elif name == "val" and files.facts().get("saw_validation"):
        name = "val-seen"  # what the model said before it saw them is kept: temperature and thresholds are chosen by it
    if selection is not None:
        model, name = _choosing(model, selection), f"{name}-{selection}"
    return _evaluate(files, make_fabric(recipe), model, dataset, name, recipe, console, positive=positive)


def _as_given(data: Path, split: str | None, labels: str | None, options: Mapping[str, str]) -> Records:
    """Another data set with its splits; of one that has none everything is for the test, since nothing is trained."""
    records = load_as_given(data, labels=labels, **options)
    if any(record.split != UNSPLIT for record in records.records):
        return records
    if split is not None:
        raise DataError(f"{data} has no splits: leave out --split, and all of its images are evaluated")
    return records._replace(records=tuple(record._replace(split="test") for record in records.records))


def _choosing(model: System, selection: Literal["soft", "discrete"]) -> System:
    """The same model that chooses patches softly, or discretely."""
    options = read_options(type(model.selection)) if model.selection is not None else []
    if "discrete" not in {option.name for option in options}:
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


def _with_classes(records: Records, model: System) -> Records:
    """The records with the model's class numbers."""
    classes = model.config.classes
    if records.task != model.task.name:
        raise DataError(
            f"{records.root}: its labels are for the task {records.task}, and the model's for {model.task.name}; "
            "correct them, or train with the other --task"
        )
    if unknown := [name for name in records.classes if name not in classes]:
        raise DataError(
            f"{records.root}: the model has no class {', '.join(map(repr, unknown))}; it knows {', '.join(classes)}"
        )
    return records._replace(classes=classes, questions=questions_of(model.config.task))


def _evaluate(
    files: RunFolder,
    fabric: Fabric,
    model: System,
    dataset: ImageDataset,
    name: str,
    recipe: Recipe,
    console: Console,
    *,
    positive: str | None = None,
    calibrates: bool = False,
) -> dict[str, Any]:
    torch.manual_seed(recipe.seed)  # a soft selection draws its noise in evaluation, too
    fabric.to_device(model.to(memory_format=torch.channels_last))
    evaluated = run_through(fabric, model, dataset, recipe, positive=positive, showing=Progress(console).going_through)
    if calibrates:
        say = partial(console.print, soft_wrap=True, highlight=False, markup=False)
        evaluated = calibrate(files, model, evaluated, dataset, say)
        fabric.barrier()
        model = files.load_best()
    return save_evaluation(evaluated, model, dataset, files, name, accelerator=recipe.accelerator)
