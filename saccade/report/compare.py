"""Several runs → one table, on the terminal or as a page with their curves over one another."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from saccade.report.numbers import amount, cost, headline, percent, show_both
from saccade.report.task_numbers import Number
from saccade.runs import RunFolder
from saccade.runs.run_contents import Run

if TYPE_CHECKING:
    from rich.table import Table

COLUMNS = (
    "run",
    "system",
    "accuracy (95%)",
    "hit rate",
    "ms / image",
    "million multiply-adds",
    "looked at closely",
    "pixels of the view",
    "minutes",
    "images seen",
    "parameters",
)
SIDE_BY_SIDE = 4


def rows(runs: Sequence[Run | Path | str]) -> list[tuple[str, ...]]:
    """A row of `COLUMNS` for each run or run folder; "–" where a run has no such number."""
    return [_row(run) for run in _read(runs)]


def _read(runs: Sequence[Run | Path | str]) -> list[Run]:
    return [run if isinstance(run, Run) else RunFolder(run).read() for run in runs]


def _row(run: Run) -> tuple[str, ...]:
    answers = run.predictions.get(run.split or "")
    numbers = headline(answers) if answers else []
    known = {number.name: number.estimate for number in numbers}
    spent = cost(run)
    # An accuracy on other images than the test images is not to be taken for one on them.
    split = "" if run.split == "test" else f" on {run.split}"
    return (
        run.name,
        run.system,
        f"{_first(numbers[0])}{split}" if known else "not evaluated yet",
        percent(known["hit rate"].value) if "hit rate" in known else "–",
        amount(spent.milliseconds, digits=1),
        amount(spent.multiply_adds / 1e6, digits=1),
        percent(spent.patch_pixels / spent.image_pixels),
        amount(spent.view_pixels),
        amount(spent.minutes, digits=1),
        amount(spent.images_seen),
        amount(spent.parameters),
    )


def _first(number: Number) -> str:
    return show_both(number) if number.name == "accuracy" else f"{number.name} {show_both(number)}"


def compare(runs: Sequence[Run | Path | str]) -> "Table":
    """The table for a terminal: a few runs side by side, which fits eighty letters, or many one below the other."""
    from rich.table import Table
    from rich.text import Text

    lines = [COLUMNS, *rows(runs)]
    if len(runs) <= SIDE_BY_SIDE:
        lines = list(zip(*lines, strict=True))
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for place, name in enumerate(lines[0]):
        table.add_column(Text(name), justify="left" if place == 0 else "right", overflow="fold")
    for line in lines[1:]:
        table.add_row(*(Text(cell) for cell in line))  # a name may hold what rich takes for markup
    return table


def write_comparison(runs: Sequence[Run | Path | str], out: Path | str) -> Path:
    """Write the table and the curves of the runs as a page to `out`, and return its path."""
    from saccade.report.plots import curves_together
    from saccade.report.rendering import chart, write_rendered

    if not runs:
        raise ValueError("no runs to compare: give the folders of at least one")
    runs, out = _read(runs), Path(out)
    curves = chart(curves_together(runs), "Accuracy, loss and hit rate of all runs over the images they saw")
    out.parent.mkdir(parents=True, exist_ok=True)
    values = {"title": "Runs side by side", "columns": COLUMNS, "rows": rows(runs), "curves": curves}
    return write_rendered(out, "comparison.html.jinja", **values)
