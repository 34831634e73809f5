"""Does tuning help? Where few images are for validation, a third of the training images decide it, in a trial.

    all but the judges, from heads that never saw the judges ─ tuned as it would be ─▶ does it lose less on the judges?

The judges are a part of which the frozen start has such heads anyway. The trial takes the recipe's own steps, in a
folder of its own, so that it can be interrupted like any run.
"""

import shutil
from collections.abc import Mapping
from typing import NamedTuple

from jaxtyping import Float
from lightning.fabric import Fabric
from rich.console import Console
from torch import Tensor

from saccade.building import load_model
from saccade.data.dataset import ImageDataset
from saccade.evaluation.sureness import Gain, as_sure_as_right
from saccade.runs import RunFolder
from saccade.runs.run_facts import Facts
from saccade.system import System
from saccade.training.evaluations import run_through
from saccade.training.frozen.judge import deal_parts
from saccade.training.learner import Learner
from saccade.training.loop import fit
from saccade.training.recipe import Recipe
from saccade.training.tracking import Tracker

JUDGES = 0  # the part of the training images that judges


def say(gain: Gain) -> str:
    """The verdict, in a line."""
    told = f"{gain.gain:.3f} ± {gain.error:.3f} of log-loss gained on {gain.images:,} images that it did not see"
    return f"trial of tuning: {told}; {'so the network is tuned' if gain.is_clear else 'so the frozen start stays'}"


def try_tuning(
    files: RunFolder, fabric: Fabric, recipe: Recipe, data: Mapping[str, ImageDataset], facts: Facts, console: Console
) -> bool:
    """Whether tuning helps; a run that is resumed goes on with its trial, or knows."""
    if "trial" not in facts.known:
        rest, judges = part_from(data["train"], recipe.seed)
        learner = Learner(load_model(files.frozen_on_trial), recipe, rest)
        before = _ask(fabric, learner.model, judges, recipe)
        if before.all_right:
            console.print(f"no trial of tuning: the frozen start is right of all {len(judges):,} images to judge by")
            return False
        console.print(f"trial of tuning: on {len(rest):,} training images, judged by the other {len(judges):,}")
        if files.writes:
            files.trial.path.mkdir(parents=True, exist_ok=True)
        fit(fabric, learner, {"train": rest, "val": judges}, files.trial, facts, console, Tracker())
        gain = Gain.of(before.losses, _ask(fabric, learner.model, judges, recipe).losses)
        console.print(say(gain), soft_wrap=True, highlight=False)
        facts.note(trial={**gain._asdict(), "helps": gain.is_clear})
        fabric.barrier()
        if files.writes:
            shutil.rmtree(files.trial.path)
    return facts.known["trial"]["helps"]


def part_from(train: ImageDataset, seed: int) -> tuple[ImageDataset, ImageDataset]:
    """The training images without the judges, and the judges."""
    records = train.records.records
    of_judges = [part == JUDGES for part in deal_parts(train.records, seed)]

    def those(judging: bool) -> ImageDataset:
        some = tuple(record for record, judges in zip(records, of_judges, strict=True) if judges == judging)
        return ImageDataset(train.records._replace(records=some), preparation=train.preparation)

    return those(False), those(True)


class _Answers(NamedTuple):
    losses: Float[Tensor, " n"]
    all_right: bool


def _ask(fabric: Fabric, model: System, judges: ImageDataset, recipe: Recipe) -> _Answers:
    fabric.to_device(model)
    said = run_through(fabric, model, judges, recipe).predictions
    right = model.task.right(said.logits, said.label)
    losses = as_sure_as_right(model.task, said.logits, said.label).losses
    return _Answers(losses, right is not None and bool((right == 1).all()))
