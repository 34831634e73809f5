"""The sections of a report on what was answered: what is taken for what, each label's numbers, numbers against labels.

One section for each question. A section is a title, pictures, and tables; which ones, its task says.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from saccade.report import intervals
from saccade.report.numbers import percent
from saccade.report.plots import confusion_matrix, scatter
from saccade.report.rendering import Picture, chart
from saccade.report.task_numbers import by_question, f1, numbers, truths
from saccade.runs.prediction_tables import PredictionTable

NOTHING = "(nothing)"
MATRIX_ALT = "Confusion matrix: what is there in rows, what is said in columns"


class Listing(NamedTuple):
    """A small table: its title, head and rows; `empty` is said where it has none."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]
    empty: str = ""


class Answers(NamedTuple):
    """What was answered: a title, a picture with a table beside it, and perhaps a wide table below."""

    title: str
    picture: Picture
    beside: Listing
    below: Listing | None = None
    note: str = ""


def show_answers(table: PredictionTable) -> list[Answers]:
    """A section for each question."""
    return [
        SECTIONS[part.task](part, f"What is taken for what{f': {question}' if question else ''}")
        for question, part in by_question(table).items()
    ]


def count_confusions(table: PredictionTable) -> np.ndarray:
    """How often class i (row) was said to be class j (column).

    Of several labels: how often i was there and missed while j was said and not there; the diagonal is what was there
    and said. A last row and column `NOTHING` have what was said, or missed, with nothing in its place.
    """
    if table.task == "multi":
        return _count_swaps(*truths(table)[:2])
    number = {name: i for i, name in enumerate(table.classes)}
    counts = np.zeros((len(number), len(number)), np.int64)
    for row in table.rows:
        counts[number[row.label], number[row.predicted]] += 1
    return counts


def _count_swaps(there: np.ndarray, said: np.ndarray) -> np.ndarray:
    missed, invented = (there & ~said).astype(np.int64), (said & ~there).astype(np.int64)
    missed = np.column_stack([missed, ~missed.any(axis=1)]).astype(np.int64)
    invented = np.column_stack([invented, ~invented.any(axis=1)]).astype(np.int64)
    counts = missed.T @ invented
    np.fill_diagonal(counts, np.append((there & said).sum(axis=0), 0))
    return counts


def _confusions(table: PredictionTable, title: str) -> Answers:
    counts = count_confusions(table)
    names = (*table.classes, NOTHING) if table.task == "multi" else table.classes
    of = np.append((truths(table).there).sum(axis=0), len(table.rows)) if table.task == "multi" else counts.sum(axis=1)
    pairs = [(i, j) for i in range(len(counts)) for j in range(len(counts)) if i != j and counts[i, j]]
    worst = [
        (names[i], names[j], f"{counts[i, j]:,} of {of[i]:,} ({percent(counts[i, j] / max(of[i], 1))})")
        for i, j in sorted(pairs, key=lambda pair: -counts[pair])[:8]
    ]
    beside = Listing("Most often", ("it is", "the model says", "how often"), worst, "No answer is wrong.")
    return Answers(title, chart(confusion_matrix(counts, names, of), MATRIX_ALT), beside)


def _labels(table: PredictionTable, title: str) -> Answers:
    there, said, share = truths(table)
    single = f1(there, said)
    hits = np.array([row.hits for row in table.rows if row.hits]).reshape(-1, len(table.classes))
    rows = []
    for place, name in enumerate(table.classes):
        both = 0 < there[:, place].sum() < len(there)
        areas = intervals.mean_areas(share[:, [place]], there[:, [place]]) if both else ()
        hit = hits[:, place][~np.isnan(hits[:, place])] if len(hits) else np.zeros(0)
        rows.append(
            (
                name,
                f"{there[:, place].sum():,}",
                *([percent(area.value) for area in areas] or ["–", "–"]),
                percent(float(single[place])),
                f"{(there & said)[:, place].sum():,}",
                f"{(there & ~said)[:, place].sum():,}",
                f"{(said & ~there)[:, place].sum():,}",
                *([percent(float(hit.mean())) if len(hit) else "–"] if len(hits) else []),
            )
        )
    head = ("label", "images with it", "AUROC", "average precision", "F1", "found", "missed", "not there, but said")
    below = Listing("Label by label", (*head, "hit rate") if len(hits) else head, rows)
    note = (
        "Rows: labels that are there; on the diagonal those that were said. Elsewhere: how often the row's label was "
        f"missed while the column's was said without being there. {NOTHING}: with nothing in its place."
    )
    return _confusions(table, title)._replace(below=below, note=note)


def _numbers(table: PredictionTable, title: str) -> Answers:
    there, said = numbers(table)
    error = np.abs(said - there)
    worst = [
        (table.rows[place].label, table.rows[place].predicted, table.rows[place].image.rpartition("/")[2])
        for place in np.argsort(-error, kind="stable")[:8]
    ]
    title = title.replace("What is taken for what", "Labels and answers")
    beside = Listing("Largest errors", ("it is", "the model says", "image"), worst)
    return Answers(title, chart(scatter(there, said), "Answers over labels; on the line they are the same"), beside)


SECTIONS: dict[str, Callable[[PredictionTable, str], Answers]] = {
    "single": _confusions,
    "ordinal": _confusions,
    "multi": _labels,
    "regression": _numbers,
}
