"""Commands on runs and recipes: `saccade recipes`, `saccade evaluate RUN`, `saccade report RUN…`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import ArgumentParser, Namespace
from jsonargparse.typing import PositiveFloat

from saccade.cli.command import Command
from saccade.cli.memory import keep_freed_memory
from saccade.files import shown
from saccade.recipes import list_recipes

if TYPE_CHECKING:
    from rich.console import Console

    from saccade.runs.prediction_tables import PredictionTable


def _no_arguments(parser: ArgumentParser) -> None:
    pass


def show_recipes(args: Namespace) -> int:
    """List the recipes that ship."""
    from rich.console import Console
    from rich.table import Table

    table = Table("recipe", "what it is", box=None)
    for recipe in list_recipes():
        table.add_row(recipe.name, recipe.summary)
    Console().print(table)
    return 0


def _add_evaluate_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="a run folder, one of folds too, as `saccade train` made it")
    parser.add_argument("--data", type=Path, help="other images than those of the run: a folder, table or archive")
    parser.add_argument(
        "--split",
        choices=("train", "val", "test"),
        help="default: test, or everything if the images of --data have no splits",
    )
    parser.add_argument(
        "--selection",
        choices=("soft", "discrete"),
        help="how patches are chosen, for the selections perturbed and sinkhorn (default: as the recipe says)",
    )
    parser.add_argument(
        "--positive", type=str, help="the class whose average precision and AUROC are told, and that decisions find"
    )
    decisions = parser.add_argument_group("decisions, chosen on validation images and kept with the model: one of")
    decisions.add_argument("--recall", type=PositiveFloat, help="find at least this share of a class, such as 0.99")
    decisions.add_argument("--precision", type=PositiveFloat, help="at least this share of what is found is right")
    decisions.add_argument(
        "--cost",
        type=str,
        action="append",
        help="what a mistake costs beside others, 'TRUTH:SAID=20', of several labels 'LABEL=20'; may be given again",
    )
    decisions.add_argument("--f1", action="store_true", help="the best F1 of the class, or of each of several labels")


def evaluate(args: Namespace) -> int:
    """Say how good the best model of a run is on a split."""
    from rich.console import Console

    from saccade.report.fold_numbers import folds_tables, spread_table, sum_up
    from saccade.report.numbers import numbers_table
    from saccade.runs import FoldFolder, RunFolder
    from saccade.training.decisions import Wish, decide_folds
    from saccade.training.fold_runs import join_again
    from saccade.training.run import evaluate as run

    keep_freed_memory()
    console = Console()
    options = {"split": args.split, "data": args.data, "selection": args.selection, "positive": args.positive}
    wish = Wish(args.recall, args.precision, tuple(args.cost or ()), args.f1)
    folds = FoldFolder(args.run)
    if not folds.is_folds:
        summary = run(args.run, console=console, wish=wish, **options)
        console.print(numbers_table(summary))
        _show_decisions(console, RunFolder(args.run).predictions().get(summary["split"]), summary)
        return 0
    if wish:
        for line in decide_folds(folds, wish, args.positive):
            console.print(shown(line), soft_wrap=True, highlight=False, markup=False)
    summaries = {name: run(each.path, console=console, **options) for name, each in folds.runs().items()}
    if any(value is not None for name, value in options.items() if name != "positive"):
        console.print(spread_table(summaries))
        return 0
    join_again(folds)
    console.print(folds_tables(sum_up(folds)))
    summary = next(iter(summaries.values()))
    _show_decisions(console, folds.out_of_fold().table, summary, note=", on the images it was chosen on")
    return 0


def _show_decisions(
    console: "Console", table: "PredictionTable | None", summary: dict[str, Any], *, note: str = ""
) -> None:
    """What the model's rule brings on the images of the table, if it has one."""
    from saccade.report.decision_numbers import decision_table, read_rule

    if table and (rule := read_rule(summary, table)):
        console.print(decision_table(table, rule, note=note))


def _add_report_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("runs", type=Path, nargs="+", help="one run: its report; several: side by side")
    parser.add_argument("--out", type=Path, help="where to write the page (default: in the run, or comparison.html)")
    parser.add_argument(
        "--patches", type=Path, help="of one run: also draw test images from all over the split and their patches here"
    )


def report(args: Namespace) -> int:
    """Write the report of a run, or compare several."""
    from rich.console import Console

    from saccade.report import write_report
    from saccade.report.compare import compare, write_comparison

    console, runs = Console(), args.runs
    if args.patches:
        _draw_patches(runs, args.patches, console)
    if len(runs) == 1:
        page = write_report(runs[0], args.out)
    else:
        console.print(compare(runs))
        page = write_comparison(runs, args.out or Path("comparison.html"))
    console.print(f"report: {page.absolute().as_uri()}", soft_wrap=True)
    return 0


def _draw_patches(runs: list[Path], to: Path, console: "Console") -> None:
    from saccade.files import whole_file
    from saccade.report.patches import draw_patches
    from saccade.runs import RunFolder

    if len(runs) > 1:
        raise ValueError(f"--patches draws one run, and {len(runs)} came: name one")
    if to.suffix not in (".jpg", ".png", ".pdf", ".svg"):
        raise ValueError(f"--patches is {to}: expected the name of a picture, .jpg, .png, .pdf or .svg")
    figure = draw_patches(RunFolder(runs[0]).read())
    to.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(to) as part:
        figure.savefig(part, dpi=200, format=to.suffix[1:])
    console.print(f"patches: {to}", soft_wrap=True, markup=False)


RECIPES = Command("list the recipes that ship", _no_arguments, show_recipes)
EVALUATE = Command("measure the best model of a run", _add_evaluate_arguments, evaluate)
REPORT = Command("write a run's report, or compare runs", _add_report_arguments, report)
