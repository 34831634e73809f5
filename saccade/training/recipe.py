"""A recipe: everything a training run is made of, as one typed tree that is also a YAML file and a set of flags.

    data → model (one entry per stage) → training (its phases) → optimizer and schedule → how long, how often, on what

`saccade train RECIPE.yaml --optimizer.lr 3e-4` is the file with one value changed; the resolved tree is written to
`recipe.yaml` of the run folder. This module imports no torch: the command line reads it for `--help`.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import yaml
from jsonargparse import ActionConfigFile, ArgumentParser, Namespace  # pyright: ignore[reportPrivateImportUsage]

from saccade.config import Stages
from saccade.recipes import find_recipe
from saccade.training.phases import Plan, Training


@dataclass(frozen=True)
class DataOptions:
    """Where images come from and what happens to them on the way.

    Args:
        path: a folder with one folder per class, a .csv or .tsv table, a published set, or an archive of one
        generate: make the data at `path` first: the generator's name and its options
        options: options of a published set's loader, such as the task of billiard
        augmentation: what training images go through: a name and its options
        workers: processes that read images ahead (default: half of the cores)
        cache_gb: keep decoded training images in memory, up to this many GB in each process that reads
        skip_bad: leave out files that cannot be read instead of stopping there
    """

    path: str | None = None
    generate: dict[str, Any] | None = None
    options: dict[str, str] = field(default_factory=dict)
    augmentation: dict[str, Any] = field(default_factory=lambda: {"name": "none"})
    workers: int | None = None
    cache_gb: float = 0.0
    skip_bad: bool = False


@dataclass(frozen=True)
class Optimizer:
    """How gradients become weights.

    Args:
        name: adamw or sgd
        lr: the learning rate at its highest
        weight_decay: how much of a weight is taken away per step, times the learning rate
        momentum: of sgd
        clip_value: gradients are cut to ± this
        clip_norm: the scorer's gradient is shortened to this length, and so is that of all the rest
    """

    name: Literal["adamw", "sgd"] = "adamw"
    lr: float = 1e-3
    weight_decay: float = 1e-4
    momentum: float = 0.9
    clip_value: float | None = None
    clip_norm: float | None = None


@dataclass(frozen=True)
class Schedule:
    """How the learning rate goes over the labeled steps.

    Args:
        name: constant, cosine (to zero), or piecewise (constant between milestones)
        warm_up: share of the steps over which it rises from zero
        milestones: shares of the steps at which a piecewise rate is multiplied by `factor`
        factor: what it is multiplied by there
    """

    name: Literal["constant", "cosine", "piecewise"] = "cosine"
    warm_up: float = 0.05
    milestones: tuple[float, ...] = (0.6, 0.8)
    factor: float = 0.1


@dataclass(frozen=True)
class Recipe:
    """A whole run.

    Args:
        training: its phases: how patches are chosen, what the loss asks for, how fast the scorer learns
        steps: training steps with labels; label-free ones come before them
        batch: images per step, over all processes together
        seed: of everything that is random
        imports: modules in which parts of one's own register themselves
        validate_every: steps between two validations, each with a checkpoint (default: a twentieth of the steps)
        best_by: the validation number by which the best model is kept
        final: train on the validation images too and keep the last model, once everything is chosen
        class_weights: weigh classes by the inverse of how frequent they are
        precision: 32-true, bf16-mixed or 16-mixed
        accelerator: auto, cpu, gpu, …
        devices: processes or GPUs on each machine
        nodes: machines
    """

    data: DataOptions = field(default_factory=DataOptions)
    model: Stages = field(default_factory=Stages)
    training: Training = field(default_factory=Training)
    optimizer: Optimizer = field(default_factory=Optimizer)
    schedule: Schedule = field(default_factory=Schedule)
    class_weights: bool = False
    steps: int = 1000
    batch: int = 16
    validate_every: int | None = None
    best_by: Literal["accuracy", "balanced_accuracy", "average_precision", "loss"] = "accuracy"
    final: bool = False
    seed: int = 0
    imports: tuple[str, ...] = ()
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    accelerator: str = "auto"
    devices: int = 1
    nodes: int = 1

    @cached_property
    def plan(self) -> Plan:
        """Which phase of the training each step is in."""
        return Plan(self.training, self.steps)

    @property
    def leg(self) -> int:
        """Steps between two validations."""
        return self.validate_every or max(1, self.plan.total // 20)


def add_recipe_arguments(parser: ArgumentParser) -> None:
    """Every key of a recipe as a flag, `--optimizer.lr` and so on."""
    parser.add_class_arguments(Recipe, as_group=True)


def as_recipe(values: Namespace) -> Recipe:
    """The recipe among parsed values."""
    parser = ArgumentParser(exit_on_error=False)
    add_recipe_arguments(parser)
    keys = [key.name for key in fields(Recipe)]
    built = parser.instantiate(Namespace(**{key: values[key] for key in keys}))
    return Recipe(**{key: built[key] for key in keys})


def load_recipe(source: str | Path, flags: Sequence[str] = ()) -> Recipe:
    """A recipe that ships with the package, or one in a file; `flags` change values as on the command line.

    >>> load_recipe("signs/perturbed", ["--steps", "10"]).steps
    10
    """
    return as_recipe(parse_recipe(source, flags))


def parse_recipe(source: str | Path, flags: Sequence[str] = ()) -> Namespace:
    """The values of a recipe before they become one."""
    path = find_recipe(str(source))
    if path is None:
        raise ValueError(f"{source} is not a recipe: expected a .yaml file, or a name that `saccade recipes` lists")
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--recipe", action=ActionConfigFile)
    add_recipe_arguments(parser)
    return parser.parse_args([f"--recipe={path}", *flags])


def dump_recipe(recipe: Recipe) -> str:
    """The recipe as YAML."""
    return yaml.safe_dump(json.loads(json.dumps(asdict(recipe))), sort_keys=False)
