"""A run's frozen start: fitted once and kept in the run folder, so that a run that is resumed goes on from it."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain

from lightning.fabric import Fabric
from rich.console import Console
from rich.table import Table

from saccade.building import load_model
from saccade.data.dataset import Batch, ImageDataset
from saccade.runs import RunFolder
from saccade.runs.run_facts import Facts
from saccade.training.batches import evaluation_loader
from saccade.training.frozen.frozen_start import FrozenStart, fit_frozen
from saccade.training.learner import Learner
from saccade.training.observers import Progress


def begin_frozen(
    files: RunFolder,
    fabric: Fabric,
    learner: Learner,
    data: Mapping[str, ImageDataset],
    facts: Facts,
    console: Console,
) -> Learner:
    """The learner of the model that never saw the validation images; fitted first, unless the run has it already."""
    recipe = learner.recipe
    if files.writes and not files.frozen_blind.is_dir():
        one_by_one, progress = replace(recipe, batch=1), Progress(console)

        def batches(what: str) -> Iterator[Batch]:
            loaders = [evaluation_loader(data[split], one_by_one) for split in ("val", "train")]
            return chain.from_iterable(
                progress.going_through(loader, f"looking at {what}", of="images") for loader in loaders
            )

        records = data["val"].records, data["train"].records
        watch = partial(progress.going_through, of="heads")
        sizes = recipe.training.patch_sizes
        start = fit_frozen(learner.model.config, *records, sizes, seed=recipe.seed, batches=batches, watch=watch)
        console.print(show(start))
        facts.note(frozen=_describe(start), parameters=sum(p.numel() for p in start.blind.parameters()))
        if recipe.training.trial:
            start.on_trial.save_pretrained(files.frozen_on_trial)
        start.seeing.save_pretrained(files.frozen_seeing)
        start.blind.save_pretrained(files.frozen_blind)  # last: where it is, the others are too
    fabric.barrier()
    return Learner(load_model(files.frozen_blind), recipe, data["train"])


def show(start: FrozenStart) -> Table:
    """The answers and what was taken of them, to read."""
    table = Table(title="Heads on the network held still, on images they never saw", box=None, title_justify="left")
    for column, justify in (("", "left"), ("log-loss", "right"), ("accuracy", "right")):
        table.add_column(column, justify=justify)  # pyright: ignore[reportArgumentType]
    for answer in start.answers:
        taken = answer.name == start.taken.name
        right = "–" if math.isnan(answer.accuracy) else f"{answer.accuracy:.1%}"
        table.add_row(answer.name, f"{answer.loss:.3f}", right, style="bold" if taken else "")
    table.caption = say(start)
    return table


def say(start: FrozenStart) -> str:
    """What the model is made of, in a line."""
    if start.patches is None:
        return "patches do not help here: a plain network on the view is the better model"
    where = {"detail": "where the view lacks detail", "search": "where the search looks"}[start.patches]
    mirrored = "; mirror images are looked at, too" if start.mirrored else ""
    return f"taken: {start.taken.name}; patches lie {where}{mirrored}"


def _describe(start: FrozenStart) -> dict[str, object]:
    answers = [
        {"name": each.name, "loss": each.loss, "accuracy": None if math.isnan(each.accuracy) else each.accuracy}
        for each in start.answers
    ]
    return {"answers": answers, "taken": start.taken.name, "patches": start.patches, "mirrored": start.mirrored}
