"""Minutes → steps and precision: a few steps of each kind are timed, on the images and the machine that will train."""

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import torch

from saccade.data.dataset import ImageDataset
from saccade.training.batches import training_loader
from saccade.training.devices import make_fabric
from saccade.training.learner import Learner
from saccade.training.recipe import Recipe

TIMED = 3  # steps, after one that makes ready
TRAINING_SHARE = 0.85  # of the time; validations and checkpoints take the rest
FROZEN_SHARE = 0.5  # of the time that is left for tuning after a frozen start
FEWEST_STEPS = 50
WORTH_IT = 1.25  # times as fast: bfloat16 is not as exact, so it must be clearly faster


class Fitted(NamedTuple):
    """A recipe with as many steps as there is time for, the minutes it will take, and how much faster bfloat16 is.

    speedup: of steps in bfloat16, if that was asked; the recipe has them if they are worth it.
    """

    recipe: Recipe
    minutes: float
    speedup: float | None = None


def fit_into(
    recipe: Recipe, learner: Learner, train: ImageDataset, minutes: float, *, any_precision: bool = False
) -> Fitted:
    """The recipe with as many steps as `minutes` have room for, if it has more.

    any_precision: take bfloat16 where it is clearly faster
    """
    seconds, speedup = dict(_time_phases(recipe, learner, train)), None
    if any_precision:
        mixed = replace(recipe, precision="bf16-mixed")
        other = dict(_time_phases(mixed, learner, train))
        speedup = sum(seconds.values()) / sum(other.values())
        recipe, seconds = (mixed, other) if speedup > WORTH_IT else (recipe, seconds)
    spans = recipe.plan.spans
    fixed = sum((span.end - span.begin) * seconds[span.phase.name] for span in spans if not span.phase.labeled)
    each = sum(span.phase.share * seconds[span.phase.name] for span in spans)
    room = 60 * minutes * TRAINING_SHARE * (FROZEN_SHARE if recipe.training.frozen else 1.0) - fixed
    steps = max(min(recipe.steps, int(room / each)), FEWEST_STEPS)
    return Fitted(replace(recipe, steps=steps), (steps * each + fixed) / TRAINING_SHARE / 60, speedup)


def _time_phases(recipe: Recipe, learner: Learner, train: ImageDataset) -> Iterator[tuple[str, float]]:
    """Seconds of a step of each phase: forward, backward and the reading of its images."""
    fabric = make_fabric(replace(recipe, devices=1, nodes=1))
    fabric.to_device(learner)
    for span in recipe.plan.spans:
        batches = training_loader(train, recipe, first=span.begin)
        learner.train()
        points = []
        for batch in islice(batches, TIMED + 1):
            with torch.enable_grad(), fabric.autocast():
                learner(fabric.to_device(batch), span.begin).loss.backward()
            points.append(time.perf_counter())
        learner.zero_grad()
        yield span.phase.name, (points[-1] - points[0]) / max(len(points) - 1, 1)


def round_minutes(minutes: float) -> str:
    """How long, as exact as anybody wants to know it.

    >>> round_minutes(0.4), round_minutes(12.3)
    ('1 minute', '13 minutes')
    """
    whole = max(math.ceil(minutes), 1)
    return f"{whole} minute{'s' if whole > 1 else ''}"
