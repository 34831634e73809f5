"""Labels that may be wrong: those that the models of a run are surest against."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from saccade.runs.fold_folder import FoldFolder
from saccade.runs.prediction_tables import PredictionRow, PredictionTable
from saccade.runs.run_folder import RunFolder
from saccade.tasks.labels import each_question, label_names, split_answers

SPLITS = ("test", "val", "val-seen", "train")  # of two answers to an image the one whose model knew less of it


class Suspect(NamedTuple):
    """An image whose label may be wrong.

    said:   what the model answered, written like a label.
    doubt:  how sure it was against the label: of names the largest difference between the share of one and whether
            the label has it; of a number the share of images with a smaller error.
    source: where the answer is from: a split of a run, or a fold that its model had not seen.
    model:  the run whose model it was.
    """

    image: Path
    said: str
    doubt: float
    source: str
    model: Path


def find_suspects(run: Path, labels: Mapping[Path, str]) -> list[Suspect]:
    """The images that a run answered otherwise than `labels` say, the most doubtful label first; of numbers all."""
    found: list[Suspect] = []
    seen: set[Path] = set()
    for table, source, models in _evaluations(run):
        asked = [(row, model) for row, model in zip(table.rows, models, strict=True) if Path(row.image) in labels]
        rows, truths = [row for row, _ in asked], [labels[Path(row.image)] for row, _ in asked]
        for (row, model), truth, doubt in zip(asked, truths, _doubts(table, rows, truths), strict=True):
            image = Path(row.image)
            if image not in seen and _differs(table, row, truth):
                found.append(Suspect(image, row.predicted, doubt, source, model))
            seen.add(image)
    return sorted(found, key=lambda each: -each.doubt)


def _evaluations(run: Path) -> Iterator[tuple[PredictionTable, str, Sequence[Path]]]:
    """What was said of the run's own images, where, and by whose model."""
    folds = FoldFolder(run)
    if folds.is_folds:
        found = folds.out_of_fold()
        yield found.table, "out of fold", [folds.run(row.fold).path for row in found.rows]
        return
    folder = RunFolder(run)
    folder.check()
    tables = folder.predictions()
    for split in SPLITS:
        if split in tables:
            yield tables[split], split, [run] * len(tables[split].rows)


def _numbers(table: PredictionTable, label: str) -> list[float]:
    """The numbers in a label."""
    questions = each_question(table.task, table.classes, table.questions)
    answers = split_answers(label, len(questions))
    return [float(text) for each, text in zip(questions, answers, strict=True) if each.task == "regression"]


def _differs(table: PredictionTable, row: PredictionRow, truth: str) -> bool:
    said, true = ({*label_names(table.task, text, table.questions)} for text in (row.predicted, truth))
    return said != true or bool(_numbers(table, truth))


def _doubts(table: PredictionTable, rows: Sequence[PredictionRow], truths: Sequence[str]) -> list[float]:
    errors = [
        [abs(a - b) for a, b in zip(_numbers(table, row.predicted), _numbers(table, truth), strict=True)]
        for row, truth in zip(rows, truths, strict=True)
    ]
    columns = [sorted(column) for column in zip(*errors, strict=True)]
    doubts = []
    for row, truth, mine in zip(rows, truths, errors, strict=True):
        ranks = [bisect_left(column, error) / len(rows) for column, error in zip(columns, mine, strict=True)]
        doubts.append(max([*_misses(table, row, truth), *ranks], default=0.0))
    return doubts


def _misses(table: PredictionTable, row: PredictionRow, truth: str) -> list[float]:
    names = label_names(table.task, truth, table.questions)
    return [abs(share - (name in names)) for name, share in zip(table.classes, row.probabilities, strict=True)]
