"""Runs in folds → one `report.html`: their numbers, what is taken for what, and the way to each fold's own report."""

from pathlib import Path

from saccade.report.decision_sections import Decided, show_decisions
from saccade.report.fold_numbers import FoldSummary, show_spread, sum_up
from saccade.report.numbers import percent, show_number
from saccade.report.page import show_answers, tile
from saccade.report.rendering import write_rendered
from saccade.runs import FoldFolder
from saccade.runs.prediction_tables import PredictionTable


def write_fold_page(folds: FoldFolder, out: Path | None = None) -> Path:
    """Write the report and `summary.json` of finished folds, and return the report's path."""
    summary, table = sum_up(folds), folds.out_of_fold().table
    folds.write_summary(summary.tree())
    rest = summary.without_repeated
    return write_rendered(
        out or folds.report_file,
        "folds.html.jinja",
        title=folds.name,
        summary=_say(summary),
        tiles=[tile(number) for number in summary.everything.together],
        columns=summary.everything.columns,
        rows=summary.everything.rows(),
        rest=rest and {"images": rest.images, "columns": rest.columns, "rows": rest.rows()},
        answers=show_answers(table),
        decisions=_decisions(folds, table),
        reports=[(name, f"fold-{name}/{run.report_file.name}") for name, run in folds.runs().items()],
        predictions=folds.out_of_fold_file.name,
    )


def _decisions(folds: FoldFolder, table: PredictionTable) -> Decided | None:
    """The rule that all models share, on the images it was chosen on."""
    runs = [run.read() for run in folds.runs().values()]
    if any(run.evaluation.get("decision") != runs[0].evaluation.get("decision") for run in runs):
        return None
    decided = show_decisions(runs[0], table)
    return decided and decided._replace(note="It was chosen on these very images.")


def _say(summary: FoldSummary) -> str:
    numbers = summary.everything
    first = numbers.together[0]
    spread = show_spread(*numbers.spread(first.name), plain=first.plain)
    if first.name != "accuracy":
        return (
            f"{len(numbers.folds)} runs, each tested on one fold and trained on the others. {first.name} over "
            f"{numbers.images:,} images, each answered by the model that had not seen its fold: {show_number(first)}; "
            f"over the folds {spread}."
        )
    whose = f"of the class {summary.positive}" if summary.positive else "means over classes"
    return (
        f"{len(numbers.folds)} runs, each tested on one fold and trained on the others. Of {numbers.images:,} images "
        f"{percent(numbers.together[0].estimate.value)} are answered right by the model that had not seen their fold; "
        f"over the folds {spread}. Average precision and AUROC are {whose}."
    )
