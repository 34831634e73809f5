"""Predictions → the numbers of their task, each with how far it can be trusted: one function for each task.

single       accuracy, balanced accuracy, average precision, AUROC
multi        AUROC and average precision in the mean over labels, F1, shares of labels and of images told right
ordinal      accuracy, kappa with quadratic weights
regression   mean absolute error, R²
questions    those of each question
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from saccade.report import intervals
from saccade.report.intervals import Estimate
from saccade.runs.prediction_tables import PredictionTable
from saccade.tasks.labels import label_names, split_answers

Values = np.ndarray | np.floating[Any]  # one, or one for each draw
FEWEST = 3  # images, for an interval


class Number(NamedTuple):
    """A share in [0, 1], or where it is `plain` any other number; its name and what it means."""

    name: str
    estimate: Estimate
    meaning: str
    plain: bool = False


class Truths(NamedTuple):
    """What is there and what is said, of each label."""

    there: Bool[np.ndarray, "n L"]
    said: Bool[np.ndarray, "n L"]
    share: Float[np.ndarray, "n L"]


def numbers_of(table: PredictionTable, positive: str | None = None) -> list[Number]:
    """The numbers of a table's task, the one that matters most first."""
    if table.task != "questions":
        return NUMBERS[table.task](table, positive)
    return [
        number._replace(name=f"{question}: {number.name}")
        for question, part in by_question(table).items()
        for number in NUMBERS[part.task](part, None)
    ]


def by_question(table: PredictionTable) -> dict[str, PredictionTable]:
    """A table for each of several questions; of one question the table itself, without a name."""
    if table.task != "questions":
        return {"": table}
    parts, begin = {}, 0
    for place, question in enumerate(table.questions):
        end = begin + len(question.classes)
        rows = []
        for row in table.rows:
            label, said = (split_answers(text, len(table.questions))[place] for text in (row.label, row.predicted))
            shares = row.probabilities[begin:end]
            confidence = max(shares, default=np.nan)
            rows.append(row._replace(label=label, predicted=said, confidence=confidence, probabilities=shares, hits=()))
        parts[question.name] = PredictionTable(question.classes, tuple(rows), question.task)
        begin = end
    return parts


def _single(table: PredictionTable, positive: str | None) -> list[Number]:
    right = np.array([row.right for row in table.rows])
    number = {name: place for place, name in enumerate(table.classes)}
    label = np.array([number[row.label] for row in table.rows])
    numbers = [
        Number("accuracy", intervals.share(right), "of the answers are right"),
        Number("balanced accuracy", intervals.mean_of_shares(right, label), "are right in the mean over classes"),
    ]
    told = None if positive is None else number[positive]
    if told is None or told in label:
        probability = np.array([row.probabilities for row in table.rows])
        estimate = intervals.average_precision(probability, label, positive=told)
        numbers.append(Number("average precision", estimate, f"area under precision against recall{_of(positive)}"))
        if len(set(label.tolist())) > 1:
            estimate = intervals.auroc(probability, label, positive=told)
            numbers.append(Number("auroc", estimate, f"area under the ROC curve{_of(positive)}"))
    return numbers


def _of(positive: str | None) -> str:
    return ", in the mean over classes" if positive is None else f" of the class {positive}"


def truths(table: PredictionTable) -> Truths:
    """What is there, what is said and with which share: of each row and label."""
    there, said = (
        np.array(
            [[name in names for name in table.classes] for names in (label_names("multi", text) for text in texts)]
        )
        for texts in ([row.label for row in table.rows], [row.predicted for row in table.rows])
    )
    return Truths(there, said, np.array([row.probabilities for row in table.rows]))


def truths_of(table: PredictionTable, name: str) -> tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """The probability of a class or label, and whether it is there."""
    place = table.classes.index(name)
    there = [name in label_names(table.task, row.label) for row in table.rows]
    return np.array([row.probabilities[place] for row in table.rows]), np.array(there)


def _multi(table: PredictionTable, positive: str | None) -> list[Number]:
    there, said, share = truths(table)
    of = "in the mean over labels" if positive is None else f"of the label {positive}"
    told = [place for place, name in enumerate(table.classes) if positive in (None, name)]
    right = there == said
    numbers = []
    if any(0 < there[:, place].sum() < len(there) for place in told):
        roc, precision = intervals.mean_areas(share[:, told], there[:, told])
        numbers = [
            Number("auroc", roc, f"area under the ROC curve, {of}"),
            Number("average precision", precision, f"area under precision against recall, {of}"),
        ]
    return [
        *numbers,
        Number("f1", Estimate(float(np.nanmean(f1(there, said)))), "F1 in the mean over labels"),
        Number("labels right", intervals.mean(right.mean(axis=1)), "of all labels, there or not, are told right"),
        Number("images right", intervals.share(right.all(axis=1)), "of the images have all labels right"),
    ]


def f1(there: Bool[np.ndarray, "n L"], said: Bool[np.ndarray, "n L"]) -> Float[np.ndarray, " L"]:
    """Of each label; NaN where it is neither there nor said."""
    both, either = (there & said).sum(axis=0), there.sum(axis=0) + said.sum(axis=0)
    return np.where(either > 0, 2 * both / np.maximum(either, 1), np.nan)


def _ordinal(table: PredictionTable, positive: str | None) -> list[Number]:
    place = {name: number for number, name in enumerate(table.classes)}
    there, said = (
        np.array([float(place[text]) for text in texts])
        for texts in ([row.label for row in table.rows], [row.predicted for row in table.rows])
    )
    kappa = _bootstrap(quadratic_kappa, there, said)
    return [
        Number("kappa", kappa, "agreement beyond chance, with quadratic weights (Cohen)", plain=True),
        Number("accuracy", intervals.share(there == said), "of the answers are the very level"),
        Number("one level off", intervals.share(abs(there - said) <= 1), "of the answers are at most one level off"),
    ]


def quadratic_kappa(there: Float[np.ndarray, "*draws n"], said: Float[np.ndarray, "*draws n"]) -> Values:
    """1 − Σ (i − j)² over the pairs there are, divided by that of independent pairs; NaN where that is none.

    >>> float(quadratic_kappa(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 2.0])))
    1.0
    """
    by_chance = there.var(axis=-1) + said.var(axis=-1) + np.square(there.mean(axis=-1) - said.mean(axis=-1))
    return _one_minus(np.square(there - said).mean(axis=-1), by_chance)


def _one_minus(part: Values, whole: Values) -> Values:
    return 1 - np.divide(part, whole, out=np.full(np.shape(part), np.nan), where=whole > 0)


def _regression(table: PredictionTable, positive: str | None) -> list[Number]:
    there, said = numbers(table)
    found = [
        Number("mean absolute error", _bootstrap(_absolute_error, there, said), "in the unit of labels", plain=True)
    ]
    if there.std() > 0:
        meaning = "of the variance of labels is explained"
        found.append(Number("R²", _bootstrap(r2, there, said), meaning, plain=True))
    return found


def numbers(table: PredictionTable) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """What is there and what is said, where labels are numbers."""
    return np.array([float(row.label) for row in table.rows]), np.array([float(row.predicted) for row in table.rows])


def _absolute_error(there: Float[np.ndarray, "*draws n"], said: Float[np.ndarray, "*draws n"]) -> Values:
    return np.abs(there - said).mean(axis=-1)


def r2(there: Float[np.ndarray, "*draws n"], said: Float[np.ndarray, "*draws n"]) -> Values:
    """1 − squared error divided by the variance; NaN where there is none."""
    return _one_minus(np.square(there - said).mean(axis=-1), there.var(axis=-1))


def _bootstrap(number: Callable[..., Values], there: np.ndarray, said: np.ndarray) -> Estimate:
    """Images drawn again, the middle 95% of what comes of it."""
    value, count = float(number(there, said)), len(there)
    if count < FEWEST or np.isnan(value):
        return Estimate(value)
    drawn = np.random.default_rng(0).integers(count, size=(intervals.DRAWS, count))
    found = number(there[drawn], said[drawn])
    if np.isnan(found).all():
        return Estimate(value)
    low, high = np.nanquantile(found, (0.025, 0.975))
    return Estimate(value, float(low), float(high))


NUMBERS: dict[str, Callable[[PredictionTable, str | None], list[Number]]] = {
    "single": _single,
    "multi": _multi,
    "ordinal": _ordinal,
    "regression": _regression,
}
