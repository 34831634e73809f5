"""A recipe: everything a training run is made of, as one typed tree that is also a YAML file and a set of flags.

    data → model (one entry per stage) → training (its phases) → optimizer and schedule → how long, how often, on what

`saccade train RECIPE.yaml --optimizer.lr 3e-4` is the file with one value changed; the resolved tree is written to
`recipe.yaml` of the run folder. This module imports no torch: the command line reads it for `--help`.
"""

import json
import math
import os
import re
from argparse import ArgumentError
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_type_hints

import yaml
from jsonargparse import ActionConfigFile, ArgumentParser, Namespace  # pyright: ignore[reportPrivateImportUsage]

from saccade.config import Stages
from saccade.options import AT_LEAST_ONE, KEYS, NOT_NEGATIVE, POSITIVE, Range, check_ranges, describe, fits
from saccade.places import is_url
from saccade.plain_trees import read_yaml
from saccade.recipes import find_recipe
from saccade.training.phases import Plan, Training

BATCH = Range("at least 1, and at most 1,000,000", lambda value: 1 <= value <= 1_000_000)
BELOW_ONE = Range("0 or more and below 1", lambda value: 0 <= value < 1)
VALIDATIONS = 20  # of a run, unless it says how many steps lie between two of them
BestBy = Literal[
    "accuracy", "balanced_accuracy", "average_precision", "auroc", "f1", "kappa", "mean_absolute_error", "loss"
]
ASCENDING = Range(
    "ascending shares of the steps between 0 and 1, such as [0.6, 0.8]",
    lambda value: all(a < b for a, b in zip((0, *value), (*value, 1), strict=True)),
)


@dataclass(frozen=True)
class DataOptions:
    """Where images come from and what happens to them on the way.

    Args:
        path: a folder with one folder per class, a .csv or .tsv table, a published set, or an archive of one; or the
            URL of shards
        generate: make the data at `path` first: the generator's name and its options
        options: options of a published set's loader, such as the task of billiard
        group: which images belong together and are never parted: a column of the table (default: group, if there is
            one), or for folders a regular expression that finds the group in an image's path
        folds: draw so many folds, one run each, where the data set has no column fold; 0: no folds, whatever it has
        fold: the one fold that is tested, trained on the others (default: all of them, one after the other)
        labels: what labels of one's own mean: single, multi, ordinal or regression; of several questions
            QUESTION=TASK,… (default: what they look like)
        augmentation: what training images go through: names with commas between them, and their options
        workers: processes that read images ahead (default: half of the cores)
        cache_gb: keep decoded training images in memory, up to this many GB in each process that reads
        skip_bad: leave out files that cannot be read instead of stopping there
    """

    path: str | None = None
    generate: dict[str, Any] | None = None
    options: dict[str, str] = field(default_factory=dict)
    group: str | None = None
    folds: int | None = None
    fold: str | None = None
    labels: str | None = None
    augmentation: dict[str, Any] = field(default_factory=lambda: {"name": "none"})
    workers: int | None = None
    cache_gb: float = 0.0
    skip_bad: bool = False

    def __post_init__(self) -> None:
        check_ranges("data", self, workers=NOT_NEGATIVE, cache_gb=NOT_NEGATIVE, folds=NOT_NEGATIVE)


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

    def __post_init__(self) -> None:
        check_ranges("optimizer", self, lr=POSITIVE, clip_value=POSITIVE, clip_norm=POSITIVE)
        check_ranges("optimizer", self, weight_decay=NOT_NEGATIVE, momentum=BELOW_ONE)


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

    def __post_init__(self) -> None:
        check_ranges("schedule", self, warm_up=BELOW_ONE, milestones=ASCENDING, factor=POSITIVE)


@dataclass(frozen=True)
class Recipe:
    """A whole run.

    Args:
        training: its phases: how patches are chosen, what the loss asks for, how fast the scorer learns
        steps: training steps with labels; label-free ones come before them (0: none after a frozen start)
        batch: images per step, over all processes together
        seed: of everything that is random
        imports: modules in which parts of one's own register themselves
        validate_every: steps between two validations, each with a checkpoint (default: a twentieth of the steps)
        best_by: the validation number by which the best model is kept (default: accuracy, of several labels auroc, of
            levels kappa, of numbers mean_absolute_error)
        positive: the class whose average precision and AUROC are told (default: of two classes the rarer one among the
            training images, of more their mean over classes)
        final: train on the validation images too and keep the last model, once everything is chosen
        class_weights: weigh classes by the inverse of how frequent they are
        calibrate: fit a temperature to the validation images at the end, and keep it if probabilities are better by it
        logger: where numbers go besides metrics.csv and TensorBoard: mlflow or wandb
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
    calibrate: bool = True
    steps: int = 1000
    batch: int = 16
    validate_every: int | None = None
    best_by: BestBy | None = None
    positive: str | None = None
    final: bool = False
    seed: int = 0
    imports: tuple[str, ...] = ()
    logger: Literal["mlflow", "wandb"] | None = None
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    accelerator: str = "auto"
    devices: int = 1
    nodes: int = 1

    def __post_init__(self) -> None:
        counts = dict.fromkeys(("validate_every", "devices", "nodes"), AT_LEAST_ONE)
        check_ranges("", self, **counts, batch=BATCH, steps=NOT_NEGATIVE, seed=NOT_NEGATIVE)

    @cached_property
    def plan(self) -> Plan:
        """Which phase of the training each step is in."""
        return Plan(self.training, self.steps)

    @property
    def leg(self) -> int:
        """Steps between two validations."""
        return self.validate_every or max(1, self.plan.total // VALIDATIONS)

    def found_from_anywhere(self) -> "Recipe":
        """The same with the whole path of its data: a run is evaluated from other folders than it was started in."""
        data = self.data
        generate = data.generate and {
            key: os.path.abspath(value) if key == "source" and value else value for key, value in data.generate.items()
        }
        path = data.path if data.path is None or is_url(data.path) else os.path.abspath(data.path)
        return replace(self, data=replace(data, path=path, generate=generate))

    def check_together(self) -> None:
        """Refuse values that cannot go together; each alone was looked at when it was set."""
        processes = self.devices * self.nodes
        if self.batch % processes:
            raise ValueError(
                f"batch is {self.batch}: expected a multiple of {processes}, one share for each of {self.devices} "
                f"devices on {self.nodes} nodes, such as {math.ceil(self.batch / processes) * processes}"
            )
        if not (self.steps or self.training.frozen):
            raise ValueError("steps is 0: expected at least 1, or training.frozen, which answers without any")
        if not self.steps and self.data.augmentation.get("name") != "none":
            raise ValueError(
                f"data.augmentation is {self.data.augmentation.get('name')} and steps is 0: a frozen start looks at "
                "images as they are, so leave --augment out, or give --steps"
            )
        for name, given in (("trial", self.training.trial), ("patch_sizes", self.training.patch_sizes)):
            if given and not self.training.frozen:
                raise ValueError(f"training.{name} belongs to a frozen start: set training.frozen too, or leave it out")
        if self.final and self.training.frozen:
            raise ValueError(
                "final is true and training.frozen too, which asks the validation images what to make the model of: "
                "leave final out, its heads see them in the end"
            )
        phases, selection = [span.phase for span in self.plan.spans], self.model.selection
        soft = selection.get("name") == "perturbed" and not selection.get("discrete", True)
        if soft and phases[-1].sigma == "to_zero":
            raise ValueError(
                "model.selection.discrete is false and σ falls to zero: the model would be tested with noise that "
                "training has taken away; expected training.sigma constant, or discrete true"
            )
        clipped = self.optimizer.clip_norm or self.optimizer.clip_value
        starts_otherwise = phases[0].guided or not phases[0].labeled
        if self.model.scorer.get("name") == "backbone" and not (clipped or starts_otherwise):
            # Adam would divide by its length for thousands of steps.
            raise ValueError(
                "model.scorer is backbone, whose scores are all equal at first, and normalizing those makes its first "
                "gradient about 100,000 times too long: expected optimizer.clip_norm, such as 1.0, or another start "
                "(training.label_free.steps, or a guided training)"
            )


def add_recipe_arguments(parser: ArgumentParser) -> None:
    """Every key of a recipe as a flag, `--optimizer.lr` and so on."""
    parser.add_class_arguments(Recipe, as_group=True)


def load_recipe(source: str | Path, flags: Sequence[str] = ()) -> Recipe:
    """A recipe that ships with the package, or one in a file; `flags` change values as on the command line.

    >>> load_recipe("signs/perturbed", ["--steps=10"]).steps
    10
    """
    path = find_recipe(str(source))
    if path is None:
        raise ValueError(f"{source} is not a recipe: expected a .yaml file, or a name that `saccade recipes` lists")
    tree = read_yaml(path, "give a recipe, such as those that `saccade recipes` lists")
    file = f"--recipe={path}"
    try:
        _check_sections(tree)
        recipe = parse_recipe([file])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return parse_recipe([file, *flags]) if flags else recipe


def parse_recipe(flags: Sequence[str]) -> Recipe:
    """The default recipe with what `flags` change, each `--key=value`.

    >>> parse_recipe(["--optimizer.lr=fast"])
    Traceback (most recent call last):
    ValueError: optimizer.lr is fast: expected a number
    """
    parser = _make_parser()
    parsed = _parse(parser, flags)
    _check_sections({key: value for key, value in parsed.as_dict().items() if key != "recipe"})
    built = parser.instantiate(parsed)
    return Recipe(**{key.name: built[key.name] for key in fields(Recipe)})


def parse_given(flags: Sequence[str]) -> dict[str, Any]:
    """What `flags` say and nothing else, as a tree.

    >>> parse_given(["--model.selection.k=5", "--steps=10"])
    {'model': {'selection': {'k': 5}}, 'steps': 10}
    """
    return _parse(_make_parser(), flags, defaults=False).as_dict()


def _make_parser() -> ArgumentParser:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--recipe", action=ActionConfigFile)
    add_recipe_arguments(parser)
    return parser


def _parse(parser: ArgumentParser, flags: Sequence[str], *, defaults: bool = True) -> Namespace:
    try:
        return parser.parse_args(flags, defaults=defaults)
    except ArgumentError as error:
        raise ValueError(_explain(str(error))) from error


def _check_sections(tree: Mapping[Any, Any], section: Any = Recipe, key: str = "") -> None:
    """Refuse unknown keys, and keys with nothing behind them, which somebody forgot to fill in or to delete."""
    known = get_type_hints(section)
    if unknown := [name for name in tree if name not in known]:
        raise ValueError(
            f"no key {', '.join(key + str(name) for name in unknown)}: expected some of {', '.join(known)}"
        )
    for name, value in tree.items():
        annotation = known[name]
        if value is None and not fits(None, annotation):
            raise ValueError(f"{key}{name} is empty: expected {describe(annotation)}; leave it out for the default")
        if is_dataclass(annotation):
            if not isinstance(value, Mapping):
                raise ValueError(f"{key}{name} is {value}: expected {describe(annotation)}")
            _check_sections(value, annotation, f"{key}{name}.")


def _explain(error: str) -> str:
    """The parser's message without the types of Python."""
    if wrong := re.search(r'Parser key "([\w.]+)":.*(?:Got|Given) value: (.*)', error, re.DOTALL):
        key, value = wrong.groups()
        annotation: Any = Recipe
        for name in key.split("."):
            annotation = get_type_hints(annotation)[name]
        return f"{key} is {value.strip()}: expected {describe(annotation)}"
    if section := re.match(r'Parser key "([\w.]+)":\s+Unable to load config \'(.*?)\'', error, re.DOTALL):
        return f"{section[1]} is {section[2]}: expected {KEYS}"
    return f"{' '.join(error.split())}; see saccade train --help"


def dump_recipe(recipe: Recipe) -> str:
    """The recipe as YAML."""
    return yaml.safe_dump(json.loads(json.dumps(asdict(recipe))), sort_keys=False)
