"""Full rows → three steps each on random images of the real shape: does it fit, and how long will it take?

    hours = steps · batch · 3 · 2 · multiply-adds of an image / (peak · utilization) / 3600

A backward pass costs twice its forward pass, hence 3; a multiply-add is two operations. The peak is that of single
precision, which the recipes have, and `UTILIZATION` of it an assumption: thin networks, as that of the traffic signs,
have less, and what is no convolution or matrix product (selection, moving pictures) comes on top.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from saccade.evaluation.cost import multiply_adds
from saccade.reproduce.stand_in import SHAPES, StandIn
from saccade.reproduce.table_types import Row
from saccade.training.recipe import Recipe, load_recipe

STEPS = 3
ON_A_PROCESSOR = 2  # images in a batch, of however many
UTILIZATION = 0.3
PEAKS = {"T4": 8.1e12, "V100": 15.7e12, "A100": 19.5e12, "H100": 66.9e12}  # operations a second, float32


class Rehearsed(NamedTuple):
    """What three steps of a recipe took.

    batch:    images in them, fewer than the recipe's on a processor.
    seconds:  of the fastest.
    memory:   bytes that training takes with the recipe's batch: measured on a GPU, reckoned on a processor from what a
              step keeps for its backward pass, the weights, their gradients and the optimizer's two moments.
    hours:    of a run, by GPU, as reckoned.
    """

    batch: int
    seconds: float
    memory: float
    multiply_adds: int
    hours: dict[str, float]


def rehearse(recipe: Recipe, *, on_gpu: bool | None = None) -> Rehearsed:
    """Take three steps as the recipe says; out of memory is an error that says with which batch."""
    on_gpu = torch.cuda.is_available() if on_gpu is None else on_gpu
    stand_in = StandIn(recipe, SHAPES[Path(recipe.data.path or "").name])
    count = recipe.batch if on_gpu else min(ON_A_PROCESSOR, recipe.batch)
    model = stand_in.learner.model
    each = multiply_adds(model, model.config.image_size, model.config.channels)["total"]
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    try:
        batch = stand_in.batch(count)
        seconds = min(stand_in.step(batch, step) for step in range(STEPS))
    except torch.OutOfMemoryError as error:
        name = torch.cuda.get_device_name()
        raise ValueError(f"a batch of {count} images does not fit into the memory of this {name}") from error
    memory = torch.cuda.max_memory_allocated() if on_gpu else _reckon(stand_in, count)
    return Rehearsed(count, seconds, float(memory), each, reckon_hours(recipe, each))


def reckon_hours(recipe: Recipe, each: int) -> dict[str, float]:
    """Hours of a run by GPU, if an image costs `each` multiply-adds.

    >>> hours = reckon_hours(Recipe(steps=1000, batch=10), 10**9)  # 6e13 operations in all
    >>> round(3600 * hours["V100"], 1)  # seconds, at 30% of 15.7e12 a second
    12.7
    """
    operations = recipe.plan.total * recipe.batch * 3 * 2 * each
    return {name: operations / (peak * UTILIZATION) / 3600 for name, peak in PEAKS.items()}


def _reckon(stand_in: StandIn, count: int) -> float:
    """Bytes with the recipe's batch, from what one image and `count` of them keep."""
    one, several = (stand_in.kept_bytes(stand_in.batch(number)) for number in (1, count))
    each = (several - one) / max(1, count - 1)
    weights = sum(parameter.numel() * parameter.element_size() for parameter in stand_in.learner.parameters())
    return one + each * (stand_in.recipe.batch - 1) + 4 * weights


def rehearse_rows(rows: Sequence[Row], say: Callable[[str], None]) -> None:
    """A line for each run that the rows ask for, as it was rehearsed, and what all of them take together."""
    total = dict.fromkeys(PEAKS, 0.0)
    seen = set()
    for row in rows:
        plan = row.full and row.full._replace(selection=None)
        if plan is None or plan in seen:
            continue
        seen.add(plan)
        recipe = load_recipe(plan.recipe, plan.flags)
        found = rehearse(recipe)
        say(f"{row.name}: {tell(recipe, found, runs=row.full_seeds)}")
        total = {name: hours + row.full_seeds * found.hours[name] for name, hours in total.items()}
    say(f"all runs: {_hours(total)}, reckoned at {UTILIZATION:.0%} of the peak in single precision")


def tell(recipe: Recipe, found: Rehearsed, *, runs: int) -> str:
    """A rehearsal in a line."""
    whole = found.batch == recipe.batch
    batch = f"batch {recipe.batch}" if whole else f"batch {found.batch} of {recipe.batch}"
    memory = f"{found.memory / 1e9:.1f} GB" if whole else f"about {found.memory / 1e9:.1f} GB with {recipe.batch}"
    return (
        f"{STEPS} steps done, {batch}, {found.seconds:.2f} s a step here, {memory}; {found.multiply_adds / 1e9:.2f} "
        f"billion multiply-adds an image, {recipe.plan.total:,} steps: {_hours(found.hours)} a run, {runs} of them"
    )


def _hours(hours: dict[str, float]) -> str:
    return ", ".join(f"{name} {number:.3g} h" for name, number in hours.items())
