"""`saccade train SOURCE`: from a recipe, or from a folder of one's own images, to a trained model and its report."""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import ActionConfigFile, ArgumentParser, Namespace  # pyright: ignore[reportPrivateImportUsage]

from saccade.cli.command import Command
from saccade.cli.memory import keep_freed_memory
from saccade.recipes import find_recipe, list_recipes
from saccade.training.recipe import add_recipe_arguments, as_recipe, parse_recipe

if TYPE_CHECKING:
    from rich.console import Console

    from saccade.data.records import Records

# Flag → the key of the recipe it stands for.
SHORT = {
    "--k": "--model.selection.k",
    "--patch": "--model.extraction.patch",
    "--view_scale": "--model.view.scale",
    "--weights": "--model.features.weights",
    "--skip_bad": "--data.skip_bad",
}


def spell_out(words: Sequence[str]) -> list[str]:
    """`train SOURCE --k 5` → `train --recipe=FILE --model.selection.k=5`: a recipe comes before what changes it.

    >>> spell_out(["train", "--steps", "10", "photos", "--k=5"])
    ['train', '--source=photos', '--given=steps,model.selection.k', '--data.path=photos', '--steps=10', \
'--model.selection.k=5']
    """
    if list(words[:1]) != ["train"] or {"-h", "--help"} & set(words):
        return list(words)
    flags = [_spell_out_flag(flag) for flag in _join_values(words[1:])]
    sources = [word for word in flags if not word.startswith("-")]
    if len(sources) != 1:
        what = f"got {', '.join(sources)}" if sources else "got none"
        raise ValueError(f"train needs one recipe, folder of images or table, {what}: see saccade train --help")
    recipe = find_recipe(sources[0])
    flags.remove(sources[0])
    # A stage before its keys, in whatever order they were typed: it would replace them (--backbone is a whole stage).
    flags.sort(key=lambda flag: flag.partition("=")[0].count("."))
    given = ",".join(flag.partition("=")[0].removeprefix("--") for flag in flags)
    begin = f"--recipe={recipe}" if recipe else f"--data.path={sources[0]}"
    return ["train", f"--source={sources[0]}", f"--given={given}", begin, *flags]


def _join_values(words: Sequence[str]) -> Iterator[str]:
    """`--steps 10` → `--steps=10`: every flag of `train` takes one value."""
    rest = iter(words)
    for word in rest:
        alone = word.startswith("--") and "=" not in word
        value = next(rest, None) if alone else None
        yield word if value is None else f"{word}={value}"


def _spell_out_flag(flag: str) -> str:
    name, equals, value = flag.partition("=")
    if name.startswith("--"):
        name = f"--{name[2:].replace('-', '_')}"  # whoever writes --view-scale means it
    if name == "--backbone":
        return f"--model.features={json.dumps({'name': 'backbone', 'model': value})}"
    return f"{SHORT.get(name, name)}{equals}{value}"


def _add_arguments(parser: ArgumentParser) -> None:
    parser.usage = "saccade train SOURCE [--out RUN] [--k 10] [--patch 100] [--steps 1000] [--KEY VALUE …]"
    parser.description = (
        "SOURCE is a recipe (its name, see `saccade recipes`, or a .yaml file), or your own data: a folder with one "
        "folder of images per class, or a table with the columns image,label[,split][,boxes]. A run that was stopped "
        "resumes with the same command."
    )
    for hidden in ("--source", "--given"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--recipe", action=ActionConfigFile, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help="the run folder (default: runs/NAME)")
    parser.add_argument("--k", help="patches to look at")
    parser.add_argument("--patch", help="side of a patch in pixels, or [height, width]")
    parser.add_argument("--view_scale", help="size of the scorer's view relative to the image")
    parser.add_argument("--backbone", help="feature network: the name of a timm model")
    parser.add_argument("--weights", help="its weights, a .safetensors file with timm's key names")
    parser.add_argument("--skip_bad", help="true: leave out files that cannot be read instead of stopping there")
    add_recipe_arguments(parser)


def train(args: Namespace) -> int:
    """Train, or resume, and write the report; 130 if the user stopped it."""
    from rich.console import Console

    from saccade.runs import RunFolder
    from saccade.training.interrupts import Stopped
    from saccade.training.recipe_rules import check_recipe
    from saccade.training.run import train as run

    keep_freed_memory()
    console = Console()
    out = args.out or Path("runs") / run_name(args.source)
    values, records = (args, None) if args.recipe else _complete(args, out, console)
    recipe = as_recipe(values)
    check_recipe(recipe)
    files = RunFolder(out)
    complete = files.finished and files.report_file.is_file()
    try:
        run(recipe, out, records=records, console=console)
    except Stopped as stopped:
        console.print(f"{stopped}; all is saved in {out}, and the same command resumes from there")
        return 130
    if not complete:
        _show_report(out, console)
    return 0


def _show_report(out: Path, console: "Console") -> None:
    """In the first of several processes."""
    from lightning.fabric.utilities import rank_zero_only

    from saccade.report.page import write_report

    if getattr(rank_zero_only, "rank", 0) == 0:
        console.print(f"report: {write_report(out).absolute().as_uri()}", soft_wrap=True)


def run_name(source: str) -> str:
    """A name for the run of a source: `signs/perturbed` → signs-perturbed, `~/photos/labels.csv` → photos."""
    if source in {recipe.name for recipe in list_recipes()}:
        return source.replace("/", "-")
    from saccade.data.loading import source_name

    return source_name(source)


def _complete(args: Namespace, out: Path, console: "Console") -> "tuple[Namespace, Records | None]":
    """On one's own data: what was not given is chosen from the images, and told with the reason.

    The images come with it, if they were listed.
    """
    from saccade.runs import RunFolder
    from saccade.training.batches import open_records
    from saccade.training.defaults import propose, sample_sizes
    from saccade.training.recipe_rules import check_values

    given = {key: _get(args, key) for key in args.given.split(",") if key not in ("", "out")}
    files = RunFolder(out)
    if files.is_run and not files.came_to_nothing():  # a run that resumes keeps what was chosen when it began
        values = parse_recipe(files.recipe_file)
        if Path(values.data.path or "").resolve() != Path(args.data.path).resolve():
            given["data.path"] = args.data.path  # other images of the same name: the run is refused
        for key, value in given.items():
            chosen = _get(values, key)  # a stage was given in part, and the rest of it was chosen
            _put(values, key, {**chosen, **value} if isinstance(chosen, dict) and isinstance(value, dict) else value)
        return values, None
    recipe = as_recipe(args)
    check_values(recipe)
    records = open_records(recipe.data, seed=args.seed)
    for choice in propose(records, seen=sample_sizes(records), given=given):
        _put(args, choice.key, choice.value)
        console.print(f"[bold]{choice.key}[/bold] {choice.value}: {choice.reason}", highlight=False)
    return args, records


def _get(values: Any, key: str) -> Any:
    """The value of a dotted key, or None: the options of a stage are its own, and may not have it."""
    for name in key.split("."):
        values = None if values is None else values.get(name)
    return values


def _put(values: Any, key: str, value: Any) -> None:
    *parents, last = key.split(".")
    for name in parents:
        if values.get(name) is None:
            values[name] = {}
        values = values[name]
    values[last] = value


TRAIN = Command("train a model by a recipe or on your own images", _add_arguments, train)
