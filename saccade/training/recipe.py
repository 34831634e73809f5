"""A recipe: everything a training run is made of, as one typed tree that is also a YAML file and a set of flags.

    data → model (one entry per stage) → warm-up → loss → optimizer and schedule → how long, how often, on what

`saccade train RECIPE.yaml --optimizer.lr 3e-4` is the file with one value changed; the resolved tree is written to
`recipe.yaml` of the run folder. This module imports no torch: the command line reads it for `--help`.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import yaml
from jsonargparse import ActionConfigFile, ArgumentParser, Namespace  # pyright: ignore[reportPrivateImportUsage]

from saccade.config import Stages
from saccade.recipes import find_recipe


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
class WarmUp:
    """The label-free warm-up: the scorer learns where the full image has detail that the view lacks.

    Args:
        steps: how many such steps come before the first label is used; 0 leaves them out
        lr: their learning rate
        focus: 0 to learn the detail of every candidate; above it, only where most is missing, the more so the higher
    """

    steps: int = 0
    lr: float = 1e-3
    focus: float = 0.0


@dataclass(frozen=True)
class Guide:
    """The guided start: patches are not blends yet, and the scorer learns nothing through the choice of them.

    Args:
        share: share of the steps that are guided; 0 leaves it out
        by: detail takes patches where the view lacks it, and after a third of the guided steps only half of them;
            scores takes the best of the scorer itself, for one that context_coefficient teaches
    """

    share: float = 0.0
    by: Literal["detail", "scores"] = "detail"


@dataclass(frozen=True)
class Optimizer:
    """How gradients become weights.

    Args:
        name: adamw or sgd
        lr: the learning rate at its highest
        weight_decay: how much of a weight is taken away per step, times the learning rate
        momentum: of sgd
        scorer_lr: learning rate of the scorer relative to `lr`
        scorer_start: share of its learning rate the scorer starts with; it rises to 1
        scorer_rise: share of the steps over which it rises
        clip_value: gradients are cut to ± this
        clip_norm: the scorer's gradient is shortened to this length, and so is that of all the rest
    """

    name: Literal["adamw", "sgd"] = "adamw"
    lr: float = 1e-3
    weight_decay: float = 1e-4
    momentum: float = 0.9
    scorer_lr: float = 1.0
    scorer_start: float = 1.0
    scorer_rise: float = 0.2
    clip_value: float | None = None
    clip_norm: float | None = None


@dataclass(frozen=True)
class Schedule:
    """How the learning rate goes over the steps.

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
        steps: training steps after the warm-up
        batch: images per step, over all processes together
        seed: of everything that is random
        imports: modules in which parts of one's own register themselves
        validate_every: steps between two validations, each with a checkpoint (default: a twentieth of the steps)
        best_by: the validation number by which the best model is kept
        final: train on the validation images too and keep the last model, once everything is chosen
        loss: options of the system's loss, such as entropy_coefficient and mixture_coefficient
        class_weights: weigh classes by the inverse of how frequent they are
        balanced: show images of each class as often as of any other, or only for this share of the steps, at first
        sigma_decay: let the noise of the selection fall linearly to zero, or stay
        precision: 32-true, bf16-mixed or 16-mixed
        accelerator: auto, cpu, gpu, …
        devices: processes or GPUs on each machine
        nodes: machines
    """

    data: DataOptions = field(default_factory=DataOptions)
    model: Stages = field(default_factory=Stages)
    warm_up: WarmUp = field(default_factory=WarmUp)
    guide: Guide = field(default_factory=Guide)
    optimizer: Optimizer = field(default_factory=Optimizer)
    schedule: Schedule = field(default_factory=Schedule)
    loss: dict[str, Any] = field(default_factory=dict)
    class_weights: bool = False
    balanced: bool | float = False
    sigma_decay: Literal["linear", "constant"] = "linear"
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

    @property
    def total_steps(self) -> int:
        """Of the warm-up and of training."""
        return self.warm_up.steps + self.steps

    @property
    def leg(self) -> int:
        """Steps between two validations."""
        return self.validate_every or max(1, self.total_steps // 20)


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
        raise ValueError(f"{source} is no recipe: expected a .yaml file, or a name that `saccade recipes` lists")
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--recipe", action=ActionConfigFile)
    add_recipe_arguments(parser)
    return parser.parse_args([f"--recipe={path}", *flags])


def dump_recipe(recipe: Recipe) -> str:
    """The recipe as YAML."""
    return yaml.safe_dump(json.loads(json.dumps(asdict(recipe))), sort_keys=False)
