"""`saccade reproduce gradient-quality`: measure the gradients of the selectors and draw how good they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from saccade.reproduce.gradient_quality.gradient_study import Case, Quality, Study

PLAIN_LINES = 5


def measure_gradients(out: Path, console: Console, *, seed: int) -> int:
    """Write gradient-quality.png and gradient-quality.csv into `out`, and say what is in them."""
    from saccade.reproduce.gradient_quality import NAME, gradient_study
    from saccade.reproduce.gradient_quality.gradient_chart import draw_gradients, save_picture

    if out.is_file():
        raise ValueError(f"--out is {out}, a file; expected the folder for {NAME}.png and {NAME}.csv")
    out.mkdir(parents=True, exist_ok=True)
    study = gradient_study.PAPER_SIZE
    table = gradient_study.gradient_quality(study, seed=seed, track=partial(follow, console=console))
    numbers = gradient_study.write_csv(table, out / f"{NAME}.csv")
    picture = save_picture(draw_gradients(table, study), out / f"{NAME}.png")
    console.print(summarize(table, study))
    for name, path in (("numbers", numbers), ("picture", picture)):
        console.print(f"{name}: {path.absolute().as_uri()}", soft_wrap=True, highlight=False)
    return 0


def follow(cases: Sequence[Case], *, console: Console) -> Iterable[Case]:
    """The same cases, with a bar on a terminal and now and then a plain line elsewhere."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    if console.is_terminal:
        columns = (TextColumn("measuring gradients"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as progress:
            yield from progress.track(cases)
        return
    for number, case in enumerate(cases, start=1):
        yield case
        if number * PLAIN_LINES // len(cases) > (number - 1) * PLAIN_LINES // len(cases):
            console.print(f"measured {number} of {len(cases)} cases", highlight=False)


def summarize(table: Sequence[Quality], study: Study) -> Table:
    """Every gradient at the study's own σ and number of draws."""
    from rich.table import Table

    usual = [row for row in table if row.sigma == study.at_sigma and row.draws in (0, study.at_draws)]
    kinds = list(dict.fromkeys(row.scores for row in usual))
    columns = [f"{kind}\n{what}" for kind in kinds for what in ("cosine", "variance")]
    title = f"N = {study.candidates}, K = {study.k}, σ = {study.at_sigma:g}, n = {study.at_draws}"
    shown = Table("gradient", *columns, title=title, title_justify="left", box=None)
    for column in shown.columns[1:]:
        column.justify = "right"
    for name in dict.fromkeys(row.gradient for row in usual):
        rows = {row.scores: row for row in usual if row.gradient == name}
        cells = [(f"{rows[kind].cosine:.3f}", _variance(rows[kind])) for kind in kinds]
        shown.add_row(name, *(cell for pair in cells for cell in pair))
    return shown


def _variance(row: Quality) -> str:
    return f"{row.variance:.2g}" if row.draws else "no draws"
