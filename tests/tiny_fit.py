"""The training part of a run and nothing around it: no report, no test."""

from pathlib import Path
from typing import Any

from lightning.fabric import seed_everything
from rich.console import Console

from saccade.data.dataset import ImageDataset
from saccade.runs import RunFolder
from saccade.training import loop
from saccade.training.devices import make_fabric
from saccade.training.learner import Learner
from saccade.training.recipe import Recipe
from saccade.training.run import make_learner, open_data
from saccade.training.tracking import Tracker


def make_parts(recipe: Recipe) -> tuple[Learner, dict[str, ImageDataset]]:
    """The model of a run before its first step, and its data."""
    seed_everything(recipe.seed, verbose=False)
    data = open_data(recipe)
    return make_learner(recipe, data), data


def fit(recipe: Recipe, folder: Path, console: Console | None = None) -> Learner:
    """Train from the beginning, or from the last checkpoint in `folder`."""
    (learner, data), fabric, files = make_parts(recipe), make_fabric(recipe), RunFolder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    fabric.launch()
    facts = files.begin(seed=0, parameters=0, phases=[], accelerator="cpu")
    facts.start_clock()
    loop.fit(fabric, learner, data, files, facts, console or Console(quiet=True), Tracker())
    return learner


def at_step(number: int, act: Any, monkeypatch: Any) -> None:
    """Lets `act` happen when step `number` is about to be taken, once."""
    prepare = loop.prepare_step

    def act_or_prepare(optimizer: Any, recipe: Recipe, step: int) -> None:
        if step == number:
            monkeypatch.setattr(loop, "prepare_step", prepare)
            act()
        prepare(optimizer, recipe, step)

    monkeypatch.setattr(loop, "prepare_step", act_or_prepare)


def crash_at(step: int, monkeypatch: Any) -> None:
    """The next run fails when `step` is about to be taken."""
    at_step(step, crash, monkeypatch)


def crash() -> None:
    raise CrashError


class CrashError(RuntimeError):
    """Not the run's fault."""
