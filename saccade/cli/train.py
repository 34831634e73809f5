"""`saccade train SOURCE`: from a recipe, or from a folder of one's own images, to a trained model and its report.

Words are read twice: first for SOURCE and the flags as typed, since SOURCE says which recipe it is that flags change
(that of a file, that of a run that began, or what one's own images ask for); then for the flags, on top of that one.
"""

import argparse
import json
import math
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jsonargparse import ArgumentParser

from saccade.cli.command import WordCommand
from saccade.cli.memory import keep_freed_memory
from saccade.cluster import HERE
from saccade.recipes import find_recipe, list_recipes

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from saccade.data.records import Records
    from saccade.training.defaults import Choice
    from saccade.training.recipe import Recipe

DESCRIPTION = (
    "SOURCE is a recipe (its name, see `saccade recipes`, or a .yaml file), or your own data: a folder with one folder "
    "of images per class, or a table with the columns image,label[,split][,boxes][,group][,fold], where a "
    "label may be several, open;short, "
    "or a number. "
    "A run that was stopped is resumed by the same command."
)


MINUTES = "30"


class Short(NamedTuple):
    """A flag that is short for a longer one."""

    key: str
    help: str


SHORT = {
    "k": Short("model.selection.k", "patches to look at"),
    "patch": Short("model.extraction.patch", "side of a patch in pixels, or [height, width]"),
    "view_scale": Short("model.view.scale", "size of the scorer's view relative to the image"),
    "backbone": Short("model.features", "feature network: the name of a timm model"),
    "weights": Short("model.features.weights", "its weights: a .safetensors file of timm's, or their name on the hub"),
    "resize": Short("model.preparation.resize", "[height, width] every image is resized to"),
    "task": Short("data.labels", "what labels mean: single, multi, ordinal or regression (default: as they look)"),
    "data.mpp": Short("model.preparation.mpp", "microns per pixel at which slides are seen"),
    "augment": Short("data.augmentation", "what training images go through: of flip,rotate90,crop,color,shift; none"),
    "folds": Short("data.folds", "draw so many folds and train one run for each; 0: none, whatever the table has"),
    "skip_bad": Short("data.skip_bad", "true: leave out files that cannot be read instead of stopping there"),
}


class Typed(NamedTuple):
    """What was typed: SOURCE, run folder, time, cluster, and other flags, each `--key=value` with its whole name."""

    source: str
    out: Path
    minutes: float
    flags: list[str]
    ray: str | None = None


def read_words(words: Sequence[str]) -> Typed:
    """The first pass.

    >>> typed = read_words(["--steps", "10", "photos", "--k=5", "--ray"])
    >>> typed.source, typed.out, typed.flags, typed.ray
    ('photos', PosixPath('runs/photos'), ['--model.selection.k=5', '--steps=10'], 'auto')
    """
    sources, values, rest = [], {}, iter(_with_address(words))
    for word in rest:
        if not word.startswith("--"):
            sources.append(word)
            continue
        name, equals, value = word[2:].partition("=")
        value = value if equals else next(rest, "--")
        if value.startswith("--"):
            raise ValueError(f"--{name} has no value: give one, as in --{name}=1; see saccade train --help")
        name = name.replace("-", "_")  # whoever writes --view-scale means it
        values[SHORT[name].key if name in SHORT else name] = _spell_out(name, value)
    if len(sources) != 1:
        what = f"got {', '.join(sources)}" if sources else "got none"
        raise ValueError(f"train needs one recipe, folder of images or table, {what}: see saccade train --help")
    out = Path(values.pop("out", None) or Path("runs") / run_name(sources[0]))
    # In alphabetical order a stage comes before its keys, which it would replace (--backbone is a whole stage).
    minutes = _read_minutes(values.pop("minutes", MINUTES))
    ray = values.pop("ray", None)
    return Typed(sources[0], out, minutes, [f"--{key}={value}" for key, value in sorted(values.items())], ray)


def _with_address(words: Sequence[str]) -> Iterator[str]:
    """The words, with the address that a bare --ray stands for."""
    for word, following in zip(words, [*words[1:], "--"], strict=True):
        yield f"--ray={HERE}" if word == "--ray" and following.startswith("--") else word


def _read_minutes(value: str) -> float:
    try:
        minutes = float(value)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes < math.inf:
        raise ValueError(f"--minutes is {value}: expected a number above 0, such as --minutes 30")
    return minutes


def _spell_out(name: str, value: str) -> str:
    if name == "backbone":
        return json.dumps({"name": "backbone", "model": value})
    if name == "augment" and not value.startswith("{"):
        return json.dumps({"name": value})
    return f"[{value}]" if name == "imports" and not value.startswith("[") else value


def run_name(source: str) -> str:
    """A name for the run of a source: `signs/perturbed` → signs-perturbed, `~/photos/labels.csv` → photos."""
    if source in {recipe.name for recipe in list_recipes()}:
        return source.replace("/", "-")
    from saccade.data.loading import source_name

    return source_name(source)


def train(words: Sequence[str]) -> int:
    """Train, or resume, and write the report; 130 if the user stopped it."""
    if {"-h", "--help"} & set(words):
        make_help().print_help()
        return 0
    typed = read_words(words)
    path = find_recipe(typed.source)
    from rich.console import Console

    from saccade.report import write_report
    from saccade.report.card import write_model_card
    from saccade.runs import RunFolder
    from saccade.training.fold_runs import read_source, wants_folds
    from saccade.training.interrupts import Stopped
    from saccade.training.recipe import load_recipe
    from saccade.training.run import train as run

    keep_freed_memory()
    console = Console()
    with _naming_recipe(path):
        if wants_folds(read_source(typed.source, typed.flags).data):
            return _train_folds(typed, console)
    if typed.ray:
        raise ValueError(
            "--ray is for the runs of folds, and this is one run, on one machine: leave it out, or give --folds"
        )
    recipe, records = (load_recipe(path, typed.flags), None) if path else choose_recipe(typed, console)
    files = RunFolder(typed.out)
    complete = files.finished and files.report_file.is_file()
    try:
        with _naming_recipe(path):
            run(recipe, files, records=records, console=console)
    except Stopped as stopped:
        console.print(f"{stopped}; all is saved in {typed.out}, and the same command resumes it", markup=False)
        return 130
    if files.writes and not complete:
        console.print(f"report: {write_report(files).absolute().as_uri()}", soft_wrap=True)
        write_model_card(files)
    return 0


@contextmanager
def _naming_recipe(path: Path | None) -> Iterator[None]:
    """Whatever is wrong in the block may be the fault of the recipe, if there is one."""
    try:
        yield
    except (ValueError, OSError) as error:
        if path:
            error.add_note(f"recipe: {path}")
        raise


def _train_folds(typed: Typed, console: "Console") -> int:
    """One run for each fold; 1 if one failed."""
    from saccade.report import write_report
    from saccade.report.fold_numbers import folds_tables, sum_up
    from saccade.runs import FoldFolder
    from saccade.training.fold_runs import train_folds

    say = partial(console.print, soft_wrap=True, highlight=False, markup=False)
    minutes = None if find_recipe(typed.source) else typed.minutes
    if train_folds(typed.source, typed.out, typed.flags, minutes=minutes, ray=typed.ray, say=say):
        return 1
    console.print(folds_tables(sum_up(FoldFolder(typed.out))))
    say(f"report: {write_report(typed.out).absolute().as_uri()}")
    return 0


def choose_recipe(typed: Typed, console: "Console") -> tuple["Recipe", "Records | None"]:
    """On one's own data: what was not given is chosen from the images, and told with the reason."""
    from saccade.runs import RunFolder
    from saccade.training.agreement import check_labels, check_recipe
    from saccade.training.batches import open_records
    from saccade.training.defaults import flatten, propose, sample_sizes
    from saccade.training.recipe import load_recipe, parse_given, parse_recipe

    given, here, run = parse_given(typed.flags), f"--data.path={typed.source}", RunFolder(typed.out)
    if run.is_run and not run.came_to_nothing():  # what was chosen when it began stays
        there = load_recipe(run.recipe_file).data.path
        moved = Path(there or "").resolve() != Path(typed.source).resolve()  # the run will be refused
        # Key by key: of a stage that was given in part, the rest was chosen.
        flags = [_as_flag(key, value) for key, value in flatten(given).items()]
        return load_recipe(run.recipe_file, [*flags, here] if moved else flags), None
    features = given.get("model", {}).get("features", {})
    # Weights alone do not say yet what reads them.
    named = ["--model.features.name=cells"] if features and "name" not in features else []
    recipe = parse_recipe([here, *typed.flags, *named])
    check_recipe(recipe)
    records = open_records(recipe.data, seed=recipe.seed)
    check_labels(recipe, records)
    choices = propose(records, seen=sample_sizes(records, mpp=recipe.model.preparation.mpp), given=given)
    chosen = [_as_flag(choice.key, choice.value) for choice in choices]
    recipe = parse_recipe([here, *typed.flags, *chosen])
    check_recipe(recipe)
    console.print(show_choices(choices))
    if "steps" not in given and recipe.steps:
        recipe = _fit_minutes(recipe, records, typed.minutes, console, any_precision="precision" not in given)
    return recipe, records


SHOWN = {
    "model.features": "network",
    "model.extraction.patch": "patch",
    "model.selection.k": "patches",
    "model.view.scale": "view",
    "training.name": "training",
    "training.evenly": "classes",
    "data.augmentation": "augment",
    "model.preparation.resize": "sizes",
    "model.preparation.stream": "reading",
}


def show_choices(choices: "Sequence[Choice]") -> "Table":
    """What matters most of what was chosen, and why."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, show_header=False, title="Chosen for these images (all of it: recipe.yaml)")
    table.title_justify = "left"
    reasons = {choice.key: choice for choice in choices}
    for key, name in SHOWN.items():
        if key in reasons:
            choice = reasons[key]  # whose words may be what rich takes for markup
            table.add_row(name, escape(choice.said or _say(choice.value)), escape(choice.reason))
    return table


def _say(value: Any) -> str:
    if isinstance(value, dict):
        return value.get("model", value["name"].replace(",", ", "))
    if isinstance(value, float):
        return f"{value:.3g}"
    return "×".join(map(str, value)) if isinstance(value, list) else str(value).replace("_", " ")


def _fit_minutes(
    recipe: "Recipe", records: "Records", minutes: float, console: "Console", *, any_precision: bool
) -> "Recipe":
    """As many steps as there is time for, told before the first of them."""
    from lightning.fabric import seed_everything

    from saccade.training.defaults.length import fit_into, round_minutes
    from saccade.training.run import make_learner, open_data

    console.print("timing a few steps …", highlight=False)
    seed_everything(recipe.seed, verbose=False)
    data = open_data(recipe, records)
    fitted = fit_into(recipe, make_learner(recipe, data), data, minutes, any_precision=any_precision)
    before = ", after a few minutes for the frozen start" if recipe.training.frozen else ""
    console.print(
        f"{fitted.recipe.steps:,} steps of {recipe.batch} images, about {round_minutes(fitted.minutes)} of training"
        f"{before} (--minutes {minutes:g}; --steps says how many instead)",
        soft_wrap=True,
        highlight=False,
    )
    if fitted.recipe.precision != recipe.precision:
        console.print(
            f"steps are in bfloat16, {fitted.speedup:.1f} times as fast here (--precision 32-true for exact ones)",
            highlight=False,
        )
    return fitted.recipe


def _as_flag(key: str, value: Any) -> str:
    return f"--{key}={value if isinstance(value, str) else json.dumps(value)}"


def make_help() -> ArgumentParser:
    """Every flag, and the parts with their own options."""
    from saccade.cli.part_help import show_parts
    from saccade.training.recipe import add_recipe_arguments

    parser = ArgumentParser(
        prog="saccade train",
        usage="saccade train SOURCE [--out RUN] [--k 10] [--patch 100] [--steps 1000] [--KEY VALUE …]",
        description=textwrap.fill(DESCRIPTION, 100),
        epilog=show_parts(),
        formatter_class=argparse.RawDescriptionHelpFormatter,  # jsonargparse's own prints Python types
    )
    parser.add_argument("--out", help="the run folder (default: runs/NAME)")
    parser.add_argument("--minutes", help=f"how long to train on your own images at most (default: {MINUTES})")
    parser.add_argument(
        "--ray", help="of folds: run them on the Ray cluster at this address, or auto (that of this machine)"
    )
    for name, short in SHORT.items():
        parser.add_argument(f"--{name}", help=f"{short.help} ({short.key})")
    add_recipe_arguments(parser)
    return parser


TRAIN = WordCommand("train a model by a recipe or on your own images", train)
