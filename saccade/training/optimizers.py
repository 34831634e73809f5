"""Recipe → optimizer and learning rate, the scorer's apart from the rest.

With T steps after w label-free ones, x = (step − w) / T and the warm-up share u, a learning rate is

    step < w     the phase's lr for the scorer, 0 for the rest
    x < u        lr · x / u, so that `lr` itself is reached at x = u
    constant     lr
    cosine       lr · ½ (1 + cos(π (x − u) / (1 − u))), zero at the end
    piecewise    lr · factor^(number of milestones ≤ x)

and after the label-free steps the scorer's is that, times the phase's `scorer.rate`, times a line from `scorer.start`
at x = 0 to 1 at x = `scorer.rise`. It depends on the step alone, so a run that resumes needs no more than the step.

Weight decay is torch's: AdamW takes p · lr · weight_decay away, SGD adds weight_decay · p to the gradient (the paper's
setting for CUB). The paper's AdamW takes p · weight_decay away, times the schedule but not times the highest learning
rate: its 1e-4 is torch's 1.0 at a learning rate of 1e-4.
"""

import math
from collections.abc import Callable
from typing import Literal

from torch import nn
from torch.optim import SGD, AdamW, Optimizer

from saccade.training.recipe import Recipe, Schedule

GroupName = Literal["scorer", "rest"]

OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {"adamw": AdamW, "sgd": SGD}


def make_optimizer(model: nn.Module, recipe: Recipe) -> Optimizer:
    """The recipe's optimizer over the groups "scorer" and "rest" of a model's trainable parameters.

    >>> from saccade import ModelConfig, PatchSelectionModel
    >>> model = PatchSelectionModel.from_config(ModelConfig(num_classes=4, image_size=(300, 400)))
    >>> [(group["name"], len(group["params"])) for group in make_optimizer(model, Recipe()).param_groups]
    [('scorer', 8), ('rest', 28)]
    """
    options = recipe.optimizer
    groups = [
        {"name": name, "params": parameters, "lr": learning_rate(recipe, name, 0)}
        for name, parameters in _group(model).items()
        if parameters
    ]
    if not groups:
        raise ValueError("no parameter of the model asks for a gradient: unfreeze what is to be trained")
    momentum = {"momentum": options.momentum} if options.name == "sgd" else {}
    return OPTIMIZERS[options.name](groups, weight_decay=options.weight_decay, **momentum)


def _group(model: nn.Module) -> dict[GroupName, list[nn.Parameter]]:
    scorer = dict(model.named_children()).get("scorer")
    scoring = {id(parameter) for parameter in scorer.parameters()} if scorer is not None else set()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return {
        "scorer": [parameter for parameter in trained if id(parameter) in scoring],
        "rest": [parameter for parameter in trained if id(parameter) not in scoring],
    }


def prepare_step(optimizer: Optimizer, recipe: Recipe, step: int) -> None:
    """Give the groups of `make_optimizer` the learning rates of a step.

    The first label finds the scorer without moments: what its gradient was like without labels says nothing now.
    """
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(recipe, group["name"], step)
    if step and step == recipe.plan.label_free:
        forget(optimizer, "scorer")


def learning_rate(recipe: Recipe, group: GroupName, step: int) -> float:
    """The learning rate of one group at a step, counted from the first label-free one.

    >>> recipe = Recipe(steps=100)  # cosine with 5% warm-up, lr 1e-3
    >>> [round(learning_rate(recipe, "rest", step), 6) for step in (0, 1, 5, 50, 100)]
    [0.0, 0.0002, 0.001, 0.000541, 0.0]
    """
    phase, x, options = recipe.plan.at(step), recipe.plan.progress(step), recipe.optimizer
    if not phase.labeled:
        return phase.lr if group == "scorer" else 0.0
    rate = options.lr * _shape(recipe.schedule, x)
    if group == "rest":
        return rate
    return rate * phase.scorer.rate * _rise(x, phase.scorer.rise, start=phase.scorer.start)


def _shape(schedule: Schedule, x: float) -> float:
    """The learning rate relative to its highest."""
    return _rise(x, schedule.warm_up) * SHAPES[schedule.name](schedule, max(x, schedule.warm_up))


def _rise(x: float, until: float, *, start: float = 0.0) -> float:
    """The line from `start` at 0 to 1 at `until`, and 1 from there on."""
    return start + (1 - start) * x / until if x < until else 1.0


def _cosine(schedule: Schedule, x: float) -> float:
    return (1 + math.cos(math.pi * (x - schedule.warm_up) / (1 - schedule.warm_up))) / 2


def _piecewise(schedule: Schedule, x: float) -> float:
    # Shares of steps are seldom exact in binary: 0.6 · 1000 steps must be reached at step 600.
    return schedule.factor ** sum(milestone <= x + 1e-9 for milestone in schedule.milestones)


SHAPES: dict[str, Callable[[Schedule, float], float]] = {
    "constant": lambda schedule, x: 1.0,
    "cosine": _cosine,
    "piecewise": _piecewise,
}


def forget(optimizer: Optimizer, group: GroupName) -> None:
    """Drop the moments of one group, as if it had not been trained yet; its weights stay."""
    for candidate in optimizer.param_groups:
        if candidate["name"] == group:
            for parameter in candidate["params"]:
                optimizer.state.pop(parameter, None)


def clip_gradients(optimizer: Optimizer, recipe: Recipe) -> None:
    """By value and by norm, each if asked for.

    The scorer's norm is apart: its gradient grows with 1/σ, and would leave nothing of the others'.
    """
    options = recipe.optimizer
    for group in optimizer.param_groups:
        trained = any(parameter.grad is not None for parameter in group["params"])  # which torch wants to be so
        if options.clip_value is not None and trained:
            nn.utils.clip_grad_value_(group["params"], options.clip_value)
        if options.clip_norm is not None:
            nn.utils.clip_grad_norm_(group["params"], options.clip_norm)
