"""Labels as people write them → which task they are for, and their names. This module imports no torch.

    cat                  single      one name
    open;short           multi       some of several names, parted by `;`; a lone `;` is none of them
    0.667                ordinal     a number, one of a few levels whose order counts
    3.25                 regression  a number
    steel | open;short   questions   an answer to each of several questions, parted by ` | `

`single` is what labels mean if nobody says otherwise, but for two things that leave no doubt: a `;`, and numbers of
which hardly any is there twice.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast, get_args

TaskName = Literal["single", "multi", "ordinal", "regression"]
TASK_NAMES: tuple[TaskName, ...] = get_args(TaskName)
SEPARATOR, BETWEEN = ";", " | "
MANY, IMAGES_EACH = 20, 10  # numbers with more different values, and fewer images of each, are no names of classes
FEW = 0.05  # labels of another kind than the rest are slips, if they are no more than this share of all
STRATA = 5
DEALT_BY = {
    "single": "class",
    "multi": "label",
    "ordinal": "level",
    "regression": "fifths of the numbers",
    "questions": "answer",
}
OTHER_SEPARATORS = ",|/+&"


class Cell(NamedTuple):
    """A label as it was written, and where: a line of a table, or a file."""

    text: str
    where: str


class Question(NamedTuple):
    """One of several questions about an image: its name, its task, and the names of its answers."""

    name: str
    task: TaskName
    classes: tuple[str, ...]


class LabelError(ValueError):
    """What is wrong with labels: where, what and what to do."""


def sort_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Labels in the order of their class numbers: by value if all are whole numbers, else by alphabet.

    >>> sort_labels({"100", "20", "50"})
    ('20', '50', '100')
    """
    labels = set(labels)
    if all(label.isdecimal() for label in labels):
        return tuple(sorted(labels, key=lambda label: (int(label), label)))  # 7 and 07 are two labels
    return tuple(sorted(labels))


def as_number(text: str) -> float | None:
    """The number a label is; None for a word.

    >>> [as_number(text) for text in ("0.5", "nan", "cat")]
    [0.5, None, None]
    """
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def split_labels(text: str) -> tuple[str, ...]:
    """The names in a label of the task multi.

    >>> split_labels("spur; open"), split_labels(";")
    (('spur', 'open'), ())
    """
    return tuple(name.strip() for name in text.split(SEPARATOR)) if text.strip() != SEPARATOR else ()


def join_labels(names: Sequence[str]) -> str:
    """Names as a label of the task multi."""
    return SEPARATOR.join(names) or SEPARATOR


def split_answers(text: str, count: int) -> list[str]:
    """The label of each of several questions."""
    answers = text.split(BETWEEN)
    if len(answers) != count:
        raise LabelError(f"the label {text!r} has {len(answers)} answers, expected {count} parted by {BETWEEN!r}")
    return answers


def each_question(task: str, classes: Sequence[str], questions: Sequence[Question] = ()) -> tuple[Question, ...]:
    """The questions that a label answers: one without a name, where there are not several."""
    return tuple(questions) or (Question("", cast(TaskName, task), tuple(classes)),)


def level_order(levels: Iterable[str]) -> tuple[str, ...]:
    """Levels by value."""
    return tuple(sorted(set(levels), key=lambda level: (as_number(level) or 0.0, level)))


def label_names(task: str, label: str, questions: Sequence[Question] = ()) -> tuple[str, ...]:
    """Which of the names there are a label has; of a number none.

    >>> label_names("multi", "spur;open"), label_names("single", "cat"), label_names("regression", "3.2")
    (('spur', 'open'), ('cat',), ())
    """
    if task == "questions":
        answers = split_answers(label, len(questions))
        named = (
            (question, label_names(question.task, answer)) for question, answer in zip(questions, answers, strict=True)
        )
        return tuple(f"{question.name}: {name}" for question, names in named for name in names)
    if task == "regression":
        return ()
    return split_labels(label) if task == "multi" else (label,)


def in_order(task: str, label: str, classes: Sequence[str], questions: Sequence[Question] = ()) -> str:
    """The label with its names in the order of the classes, so that equal labels are equal texts.

    >>> in_order("multi", "spur; open", ("open", "spur"))
    'open;spur'
    """
    if task == "questions":
        answers = zip(questions, split_answers(label, len(questions)), strict=True)
        return BETWEEN.join(in_order(question.task, answer, question.classes) for question, answer in answers)
    names = set(split_labels(label)) if task == "multi" else set()
    return join_labels([name for name in classes if name in names]) if task == "multi" else label


def strata(task: str, labels: Sequence[str], questions: Sequence[Question] = ()) -> list[tuple[str, ...]]:
    """By what each label is to be dealt alike: its names, and of numbers the fifth of them that it is in."""
    if task == "questions":
        answers = [split_answers(label, len(questions)) for label in labels]
        columns = [strata(q.task, column) for q, column in zip(questions, zip(*answers, strict=True), strict=True)]
        return [
            tuple(f"{place}: {name}" for place, of in enumerate(row) for name in of)
            for row in zip(*columns, strict=True)
        ]
    if task != "regression":
        return [label_names(task, label) for label in labels]
    values = [float(label) for label in labels]
    order = sorted(range(len(values)), key=lambda place: values[place])
    found = [("",)] * len(values)
    for rank, place in enumerate(order):
        found[place] = (f"fifth {rank * STRATA // len(values)}",)
    return found


def questions_of(spec: Mapping[str, Any]) -> tuple[Question, ...]:
    """The several questions of a task as plain values; none where it is one."""
    return tuple(
        Question(each["name"], each["task"]["name"], tuple(each["classes"])) for each in spec.get("questions", ())
    )


# ---- which task labels are for


def find_task(cells: Sequence[Cell], wanted: TaskName | None = None) -> tuple[TaskName, str]:
    """The task that labels are for, and what to say of it, if anything; labels that do not fit it are refused."""
    task = wanted or _recognize(cells)
    CHECKS[task](cells)
    return task, "" if wanted else _describe(task, cells)


def _recognize(cells: Sequence[Cell]) -> TaskName:
    if any(SEPARATOR in cell.text for cell in cells):
        return "multi"
    numbers = [cell for cell in cells if as_number(cell.text) is not None]
    if numbers and len(numbers) < len(cells):
        _refuse_slips(cells, numbers)
        return "single"
    if not numbers:
        _refuse_other_separators(cells)
    return "regression" if _are_measured(numbers) else "single"


def _are_measured(numbers: Sequence[Cell]) -> bool:
    """Whether numbers are no names of classes: there are many, and hardly any is there twice."""
    different = len({cell.text for cell in numbers})
    return different > MANY and len(numbers) < IMAGES_EACH * different


def _refuse_slips(cells: Sequence[Cell], numbers: Sequence[Cell]) -> None:
    """Whole numbers and words may be names of classes together (20, 50, none), but not words among measured numbers,
    and hardly a few of one kind among many of the other.
    """
    words = _others(cells, numbers)
    fewer, kind, most = (numbers, "a number", "words") if len(numbers) < len(words) else (words, "no number", "numbers")
    measured = _are_measured(numbers) or not all(cell.text.strip().isdecimal() for cell in numbers)
    if (measured and fewer is words) or len(fewer) < FEW * len(cells):
        raise LabelError(
            f"{fewer[0].where}: the label {fewer[0].text!r} is {kind}, and most others are {most}; correct it, or say "
            "--task single if both are names of classes"
        )


def _others(cells: Sequence[Cell], some: Sequence[Cell]) -> list[Cell]:
    left_out = set(some)
    return [cell for cell in cells if cell not in left_out]


def _refuse_other_separators(cells: Sequence[Cell]) -> None:
    """`open|short` where `open` and `short` are labels too is most likely meant as two labels."""
    texts = {cell.text for cell in cells}
    for separator in OTHER_SEPARATORS:
        pieces = {text: [piece.strip() for piece in text.split(separator)] for text in texts if separator in text}
        for cell in cells:
            mine = pieces.get(cell.text, [])
            elsewhere = {piece for text, found in pieces.items() if text != cell.text for piece in found} | texts
            if mine and all(piece and piece in elsewhere for piece in mine):
                raise LabelError(
                    f"{cell.where}: the label {cell.text!r} looks like {len(mine)} labels; part them by {SEPARATOR!r}, "
                    "or say --task single if it is the name of one class"
                )


def _describe(task: TaskName, cells: Sequence[Cell]) -> str:
    if task == "multi":
        names = {name for cell in cells for name in split_labels(cell.text)}
        return (
            f"labels hold several names, parted by {SEPARATOR!r}: an image may have any of {len(names)} (--task multi)"
        )
    if task == "regression":
        different = len({cell.text for cell in cells})
        return (
            f"labels are {different} different numbers: the model answers with a number (--task regression; "
            "--task single if they are names of classes, --task ordinal if they are levels)"
        )
    numbers = {as_number(cell.text) for cell in cells}
    if None not in numbers and any(value != round(value or 0) for value in numbers):
        return f"labels are {len(numbers)} numbers, taken for names of classes (--task ordinal if their order counts)"
    return ""


def _check_single(cells: Sequence[Cell]) -> None:
    _refuse_empty(cells)


def _check_multi(cells: Sequence[Cell]) -> None:
    _refuse_empty(cells)
    for cell in cells:
        names = split_labels(cell.text)
        if not all(names):
            raise LabelError(f"{cell.where}: the label {cell.text!r} has nothing beside a {SEPARATOR!r}; take that out")
        if len(set(names)) < len(names):
            raise LabelError(f"{cell.where}: the label {cell.text!r} has a name twice; keep one")
    _refuse_other_separators([Cell(name, cell.where) for cell in cells for name in split_labels(cell.text)])


def _check_numbers(cells: Sequence[Cell]) -> None:
    _refuse_empty(cells)
    for cell in cells:
        if as_number(cell.text) is None:
            raise LabelError(
                f"{cell.where}: the label {cell.text!r} is no number, which this task needs; correct it, or say "
                "--task single if labels are names of classes"
            )


def _refuse_empty(cells: Sequence[Cell]) -> None:
    for cell in cells:
        if not cell.text.strip():
            raise LabelError(
                f"{cell.where}: no label; every image needs one (a lone {SEPARATOR!r} where it has none of several)"
            )


CHECKS = {"single": _check_single, "multi": _check_multi, "ordinal": _check_numbers, "regression": _check_numbers}


def class_names(task: TaskName, cells: Sequence[Cell]) -> tuple[str, ...]:
    """The names that labels have, in the order of class numbers; numbers have none."""
    names = {name for cell in cells for name in label_names(task, cell.text)}
    return level_order(names) if task == "ordinal" else sort_labels(names)
