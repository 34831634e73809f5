"""Minutes → steps, validations and precision: a few steps of each kind are timed, and a few validation images, on the
machine that will train.
"""

import math
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from typing import NamedTuple

import torch

from saccade.data.dataset import ImageDataset
from saccade.evaluation import predict_batch
from saccade.module_modes import evaluating
from saccade.training.batches import evaluation_loader, training_loader
from saccade.training.devices import make_fabric
from saccade.training.learner import Learner
from saccade.training.recipe import VALIDATIONS, Recipe

TIMED = 3  # steps, or batches of validation images, after one that makes ready
TRAINING_SHARE = 0.85  # of the time; validations and checkpoints take the rest, if a few of them do not need more
FEWEST_VALIDATIONS = 4
TUNING_SHARE = 0.6  # of the time that is left for tuning after a frozen start; with a trial it is tuned twice
FEWEST_STEPS = 50
WORTH_IT = 1.25  # times as fast: bfloat16 is not as exact, so it must be clearly faster


class Fitted(NamedTuple):
    """A recipe with as many steps and validations as there is time for, the minutes it will take, and how much faster
    bfloat16 is.

    speedup: of steps in bfloat16, if that was asked; the recipe has them if they are worth it.
    """

    recipe: Recipe
    minutes: float
    speedup: float | None = None


def fit_into(
    recipe: Recipe, learner: Learner, data: Mapping[str, ImageDataset], minutes: float, *, any_precision: bool = False
) -> Fitted:
    """The recipe with as many steps as `minutes` have room for, if it has more, and with fewer validations if they
    would take too much of it.

    any_precision: take bfloat16 where it is clearly faster
    """
    seconds, speedup = dict(_time_phases(recipe, learner, data["train"])), None
    if any_precision:
        mixed = replace(recipe, precision="bf16-mixed")
        other = dict(_time_phases(mixed, learner, data["train"]))
        speedup = sum(seconds.values()) / sum(other.values())
        recipe, seconds = (mixed, other) if speedup > WORTH_IT else (recipe, seconds)
    spans = recipe.plan.spans
    fixed = sum((span.end - span.begin) * seconds[span.phase.name] for span in spans if not span.phase.labeled)
    each = sum(span.phase.share * seconds[span.phase.name] for span in spans)
    budget = 60 * minutes * (TUNING_SHARE if recipe.training.frozen else 1.0) / (2 if recipe.training.trial else 1)
    validation = _time_validation(recipe, learner, data["val"])
    room = (1 - TRAINING_SHARE) * budget
    validations = min(max(int(room / max(validation, room / VALIDATIONS)), FEWEST_VALIDATIONS), VALIDATIONS)
    share = min(TRAINING_SHARE, 1 - validations * validation / budget)
    steps = max(min(recipe.steps, int((share * budget - fixed) / each)), FEWEST_STEPS)
    recipe = replace(recipe, steps=steps)
    if validations < VALIDATIONS and recipe.validate_every is None:
        recipe = replace(recipe, validate_every=math.ceil(recipe.plan.total / validations))
    needed = steps * each + fixed
    return Fitted(recipe, max(needed / TRAINING_SHARE, needed + validations * validation) / 60, speedup)


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
        yield span.phase.name, _median_apart(points)


def _time_validation(recipe: Recipe, learner: Learner, val: ImageDataset) -> float:
    """Seconds of a validation."""
    fabric = make_fabric(replace(recipe, devices=1, nodes=1))
    points = []
    with evaluating(learner.model), torch.inference_mode(), fabric.autocast():
        for batch in islice(evaluation_loader(val, recipe), TIMED + 1):
            predict_batch(learner.model, fabric.to_device(batch))
            points.append(time.perf_counter())
    return _median_apart(points) * math.ceil(len(val) / recipe.batch)


def _median_apart(points: Sequence[float]) -> float:
    """Of the seconds between two of them: a machine with other work to do stops for a moment now and then."""
    return statistics.median(after - before for before, after in pairwise(points)) if len(points) > 1 else 0.0


def round_minutes(minutes: float) -> str:
    """How long, as exact as anybody wants to know it.

    >>> round_minutes(0.4), round_minutes(12.3)
    ('1 minute', '13 minutes')
    """
    whole = max(math.ceil(minutes), 1)
    return f"{whole} minute{'s' if whole > 1 else ''}"
