"""Finished runs → numbers → `TABLE.csv`, one line per run, and `TABLE.md`, one line per row: the paper's and ours.

Both are made anew each time.
"""

import csv
import io
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from saccade.files import write_whole
from saccade.reproduce.aids import name_aids
from saccade.reproduce.by_group import lines_by_group
from saccade.reproduce.collect import PROVENANCE, Result, curve_text, job_of
from saccade.reproduce.jobs import Request
from saccade.reproduce.orders import ENOUGH, tell_orders
from saccade.reproduce.summaries import STATISTICS, show
from saccade.reproduce.table_types import TRAIN_ACCURACY, Measure, Row, Table
from saccade.runs.run_contents import MEAN_OVER_CLASSES

LEARNT = (
    "Train accuracy is that of the last tenth of the steps, on batches as training saw them: moved, and with patches "
    "chosen as in training. Runs whose line was written before it was kept have none."
)


def values_of(results: Sequence[Result], row: Row, measure: Measure) -> list[float]:
    """What the runs of a row have measured, as the table shows it."""
    numbers = [each.numbers.get(measure.name, math.nan) for each in results if each.row.name == row.name]
    return [measure.scale * number for number in numbers if not math.isnan(number)]


def markdown(request: Request, results: Sequence[Result]) -> str:
    """The table: rows without a run have "–"."""
    if request.table.groups:
        body = "\n".join(lines_by_group(request.table, results))
    else:
        body = f"{_lines_by_row(request, results)}{_orders(request.table, results)}"
    return f"# {request.title}\n\n{body}\n\n{_caption(request, results)}\n"


def _lines_by_row(request: Request, results: Sequence[Result]) -> str:
    table, scale = request.table, request.scale
    rows = [row for row in table.rows if row.plan(scale) or row.paper != "–"]
    theirs = ["published" if table.ours else "paper"] * any(row.paper != "–" for row in rows)
    columns = _columns(table)
    titles = (f"ours: {column.measure.title}{column.told}" for column in columns)
    head = ("", "aids", *theirs, *titles, "runs", "minutes a run")
    lines = [head, ("---", "---", *["---:"] * (len(head) - 2))]
    for row in rows:
        mine = [each for each in results if each.row.name == row.name]
        minutes = [each.numbers["minutes"] for each in mine]
        ours = [
            show(values_of(results, row, column.measure), column.measure, column.statistic, runs=len(mine))
            for column in columns
        ]
        took = f"{statistics.fmean(minutes):.1f}" if minutes else "–"
        aids = ", ".join(name_aids(job_of(request, row, 0).recipe)) if row.plan(scale) else ""
        lines.append((row.label, aids or "–", *[row.paper] * len(theirs), *ours, _count(mine), took))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _orders(table: Table, results: Sequence[Result]) -> str:
    """What may be said of the order of the rows, data set by data set; "" if nothing."""
    told = [
        tell_orders({row.label: values_of(results, row, table.measures[0]) for row in table.rows if row.group == group})
        for group in dict.fromkeys(row.group for row in table.rows)
    ]
    text = "\n".join(filter(None, told))
    title = table.measures[0].title.partition(" [")[0]
    how = f"By {title}, of rows with at least {ENOUGH} runs, mean and median agreeing beyond their spreads:"
    return f"\n\n{how}\n\n{text}" if text else ""


class _Column(NamedTuple):
    """A measure by one statistic, which its title tells if others stand beside it."""

    measure: Measure
    statistic: str
    told: str = ""


def _columns(table: Table) -> list[_Column]:
    """The first measure by both statistics, the table's own first: an order is worth no more than both say."""
    first, *rest = table.measures
    both = [_Column(first, statistic, f", {statistic}") for statistic in sorted(STATISTICS, key=table.statistic.__ne__)]
    return [*both, *(_Column(measure, table.statistic) for measure in rest)]


def _count(runs: Sequence[Result]) -> str:
    failed = sum(each.numbers["failed"] for each in runs)
    return f"{len(runs)}, {failed:.0f} failed" if failed else str(len(runs))


def _caption(request: Request, results: Sequence[Result]) -> str:
    table = request.table
    hardware, threads = (sorted({each.facts[name] for each in results}) for name in ("hardware", "threads"))
    dates = sorted(each.facts["finished"][:10] for each in results)
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    failed = "" if table.groups else "A run failed if it ended below half of the best run on the same data."
    notes = [
        failed,
        LEARNT if TRAIN_ACCURACY in table.measures else "",
        table.note,
        table.small if request.scale == "small" else "",
        _of_which_class(request, results),
    ]
    one = "thread" if threads == ["1"] else "threads"
    where = table.source[:1].upper() + table.source[1:] if table.ours else f"In the paper: {table.source}"
    return (
        f"{where}. Ours: {request.scale} scale, {table.statistic} over runs that differ in their seed, measured on "
        f"test images with {_kept(request, results)}. {' '.join(note for note in notes if note)}\n\n"
        f"{'; '.join(hardware)}, {' or '.join(threads)} {one} a run; {when}. "
        f"Every run is in [{request.stem}.csv]({request.stem}.csv); "
        f"`saccade reproduce {table.name}{'' if request.scale == 'small' else f' --scale {request.scale}'}`."
    )


def _of_which_class(request: Request, results: Sequence[Result]) -> str:
    """Whose average precision or AUROC the table has, row by row where rows differ; "" if it has neither."""
    areas = [measure.title for measure in request.table.measures if measure.name in ("average_precision", "auroc")]
    rows: dict[str, list[str]] = {}
    for each in results if areas else ():
        rows.setdefault(each.positive, []).append(each.row.label)
    fewest_first = sorted(rows, key=lambda name: len(rows[name]))
    told = [f"{_whose(name)} in {'; '.join(dict.fromkeys(rows[name]))}" for name in fewest_first[:-1]]
    told += [f"{_whose(name)}{' in all other rows' if told else ''}" for name in fewest_first[-1:]]
    title = " and ".join(areas)
    return f"{title[:1].upper()}{title[1:]}: {', '.join(told)}." if told else ""


def _whose(positive: str) -> str:
    return positive if positive == MEAN_OVER_CLASSES else f"of the class {positive}"


def _kept(request: Request, results: Sequence[Result]) -> str:
    """Which model of each run was measured."""
    last = all(job_of(request, each.row, each.seed).recipe.final for each in results)
    return "the last model, trained on all other images" if last else "the model that was best in validation"


def table_of_runs(results: Sequence[Result]) -> str:
    """The CSV: row, seed, settings, positive class, every number, validation curve, and what the run was made with."""
    names = list(dict.fromkeys(name for each in results for name in each.numbers))
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("row", "seed", "settings", "positive", *names, "validation", *PROVENANCE))
    for each in results:
        numbers = [f"{each.numbers[name]:.6g}" if name in each.numbers else "" for name in names]
        facts = [each.facts[name] for name in PROVENANCE]
        writer.writerow((each.row.name, each.seed, each.settings, each.positive, *numbers, curve_text(each), *facts))
    return text.getvalue()


def write_results(request: Request, results: Sequence[Result]) -> list[Path]:
    """Write both files whole, and return their paths."""
    request.out.mkdir(parents=True, exist_ok=True)
    texts = {".csv": table_of_runs(results), ".md": markdown(request, results)}
    return [write_whole(request.out / f"{request.stem}{suffix}", text) for suffix, text in texts.items()]
