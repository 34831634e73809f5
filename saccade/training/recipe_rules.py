"""A recipe's values, looked at before anything is built: each refusal names the key, the value and what to write.

Types, names and unknown keys are the parser's business, options of a model's parts that of their constructors, but for
those that others are calculated from. This module imports no torch.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from saccade.training.recipe import Recipe


class _Rule(NamedTuple):
    keys: str  # separated by spaces
    accepts: Callable[[Any], bool]
    expected: str


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_size(value: Any) -> bool:
    return _is_whole(value) or (isinstance(value, (list, tuple)) and len(value) == 2 and all(map(_is_whole, value)))


RULES = (
    _Rule("steps batch validate_every devices nodes", lambda value: value >= 1, "at least 1"),
    _Rule("seed training.label_free.steps data.workers", lambda value: value >= 0, "0 or more"),
    _Rule("model.preparation.max_pixels", lambda value: value >= 1, "at least 1"),
    _Rule(
        "model.preparation.resize",
        lambda value: min(value) >= 1,
        "a height and a width of at least one pixel, such as [960, 1280]",
    ),
    _Rule("model.selection.k model.scorer.pool model.scorer.stride", _is_whole, "a whole number of at least 1"),
    _Rule("model.features.model", lambda value: isinstance(value, str), "the name of a timm model, such as resnet18"),
    _Rule("model.extraction.patch", _is_size, "a side of at least 1 px, such as 100, or [height, width]"),
    _Rule(
        "model.view.scale",
        lambda value: isinstance(value, (int, float)) and 0 < value <= 1,
        "a number above 0 and at most 1, such as 0.25",
    ),
    _Rule(
        "training.label_free.lr optimizer.lr training.scorer.rate",
        lambda value: 0 < value < math.inf,
        "a number above 0",
    ),
    _Rule(
        "optimizer.clip_value optimizer.clip_norm",
        lambda value: 0 < value < math.inf,
        "a number above 0, or null for no clipping",
    ),
    _Rule(
        "data.cache_gb optimizer.weight_decay training.label_free.focus",
        lambda value: 0 <= value < math.inf,
        "0 or more",
    ),
    _Rule("optimizer.momentum", lambda value: 0 <= value < 1, "0 or more and below 1"),
    _Rule("schedule.factor", lambda value: 0 < value < math.inf, "a number above 0"),
    _Rule(
        "training.scorer.start training.scorer.rise training.guided training.evenly",
        lambda value: 0 <= value <= 1,
        "a share from 0 to 1",
    ),
    _Rule("schedule.warm_up", lambda value: 0 <= value < 1, "a share of the steps, 0 or more and below 1"),
    _Rule(
        "schedule.milestones",
        lambda value: all(a < b for a, b in zip((0, *value), (*value, 1), strict=True)),
        "ascending shares of the steps between 0 and 1, such as [0.6, 0.8]",
    ),
)


def check_recipe(recipe: Recipe) -> None:
    """Refuse what cannot be trained with a ValueError.

    >>> check_recipe(Recipe(steps=0))
    Traceback (most recent call last):
    ValueError: steps is 0: expected at least 1
    """
    check_values(recipe)
    _check_together(recipe)


def check_values(recipe: Recipe) -> None:
    """Refuse each value that is wrong whatever the others are, as those are that the others are yet chosen from."""
    for rule in RULES:
        for key in rule.keys.split():
            value = _get(recipe, key)
            if value is not _UNSET and not rule.accepts(value):
                raise ValueError(f"{key} is {_show(value)}: expected {rule.expected}")


def _check_together(recipe: Recipe) -> None:
    processes = recipe.devices * recipe.nodes
    if recipe.batch % processes:
        more = math.ceil(recipe.batch / processes) * processes
        raise ValueError(
            f"batch is {recipe.batch}: expected a multiple of {processes}, one share for each of {recipe.devices} "
            f"devices on {recipe.nodes} nodes, such as {more}"
        )
    phases, selection = [span.phase for span in recipe.plan.spans], recipe.model.selection
    if selection.get("name") == "perturbed" and not selection.get("discrete", True) and phases[-1].sigma == "to_zero":
        raise ValueError(
            "model.selection.discrete is false and σ falls to zero: the model would be tested with noise that training "
            "has taken away; expected training.sigma constant, or discrete true"
        )
    clipped = recipe.optimizer.clip_norm or recipe.optimizer.clip_value
    starts_otherwise = phases[0].guided or not phases[0].labeled
    if recipe.model.scorer.get("name") == "backbone" and not (clipped or starts_otherwise):
        # Adam would divide by its length for thousands of steps.
        raise ValueError(
            "model.scorer is backbone, whose scores are all equal at first, and normalizing those makes its first "
            "gradient about 100,000 times too long: expected optimizer.clip_norm, such as 1.0, or another start "
            "(training.label_free.steps, or a guided training)"
        )


_UNSET = object()


def _get(tree: Any, key: str) -> Any:
    """The value of a dotted key; null means unset, but not for an option of a model's part that was given."""
    for name in key.split("."):
        if isinstance(tree, dict):
            return tree.get(name, _UNSET)
        tree = getattr(tree, name)
    return _UNSET if tree is None else tree


def _show(value: Any) -> str:
    if value is None:
        return "null"
    return str(list(value)) if isinstance(value, tuple) else str(value)
