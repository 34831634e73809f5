"""Which columns of a table are labels, and what all of its labels mean.

    image,label              one label, or several parted by `;`, or a number
    image,open,short         0 or 1 in a column for each label, where there is no column `label`
    image,label:age,label:x  an answer to each of several questions

What labels mean is found from all of them (`saccade.tasks.labels`), unless the user says so: the name of a task, or
`age=regression,x=multi` where there are several questions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from saccade.data.records import DataError, Record
from saccade.files import shown
from saccade.tasks.labels import (
    BETWEEN,
    TASK_NAMES,
    Cell,
    LabelError,
    Question,
    TaskName,
    class_names,
    find_task,
    join_labels,
    split_answers,
    split_labels,
)

OTHER_COLUMNS = ("image", "split", "boxes", "group", "fold")
PREFIX = "label:"


class Meaning(NamedTuple):
    """What the labels of a data set mean, for `Records`."""

    task: str
    classes: tuple[str, ...]
    questions: tuple[Question, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LabelColumns:
    """The columns with labels: `label`, one for each of several questions, or 0 and 1 for each of several labels."""

    names: tuple[str, ...]
    flags: bool = False

    @property
    def questions(self) -> tuple[str, ...]:
        """The names of several questions; none where there is one."""
        return tuple(name.removeprefix(PREFIX) for name in self.names if name.startswith(PREFIX))

    def label(self, row: Mapping[str, str]) -> str:
        """What a row says, as one text."""
        if self.flags:
            wrong = [name for name in self.names if row[name] not in ("0", "1")]
            if wrong:
                raise DataError(
                    f"{row[wrong[0]]!r} in the column {wrong[0]!r}: expected 0 or 1, as in a column for each label; or "
                    "call the column with labels 'label'"
                )
            return join_labels([name for name in self.names if row[name] == "1"])
        for name in self.names:
            if self.questions and BETWEEN in row[name]:
                raise DataError(
                    f"{row[name]!r} in the column {name!r}: {BETWEEN!r} parts answers; take it out of labels"
                )
        return BETWEEN.join(row[name] for name in self.names)

    def cells(self, label: str) -> dict[str, str]:
        """What to write into a row that shall say `label`."""
        if self.flags:
            there = split_labels(label)
            return {name: str(int(name in there)) for name in self.names}
        return dict(zip(self.names, split_answers(label, len(self.names)), strict=True))


def find_label_columns(header: Sequence[str], group: str) -> LabelColumns | None:
    """Those of a table with these columns; None if there are none."""
    questions = tuple(name for name in header if name.startswith(PREFIX) and name != PREFIX)
    if questions:
        return LabelColumns(questions)
    if "label" in header:
        return LabelColumns(("label",))
    flags = tuple(name for name in header if name not in (*OTHER_COLUMNS, group, ""))
    return LabelColumns(flags, flags=True) if flags and "image" in header else None


def interpret(
    records: Sequence[Record], places: Sequence[str], wanted: str | None, columns: LabelColumns | None = None
) -> Meaning:
    """What the labels of these records mean; `places` say where each was written.

    wanted: what the user says of it.
    """
    questions = columns.questions if columns else ()
    if not questions:
        name = _task_name(wanted, "the labels") if wanted else None
        cells = [Cell(record.label, place) for record, place in zip(records, places, strict=True)]
        if columns and columns.flags:
            _check_flags(columns, name)
            return Meaning("multi", columns.names)
        task, note = _find(cells, name)
        return Meaning(task, class_names(task, cells), notes=(note,) if note else ())
    tasks = _tasks_of(wanted, questions)
    answers = [split_answers(record.label, len(questions)) for record in records]
    found, notes = [], []
    for question, column in zip(questions, zip(*answers, strict=True), strict=True):
        cells = [Cell(text, f"{place}, column {PREFIX}{question}") for text, place in zip(column, places, strict=True)]
        task, note = _find(cells, tasks.get(question))
        found.append(Question(question, task, class_names(task, cells)))
        notes += [f"{question}: {note}"] if note else []
    classes = tuple(f"{question.name}: {name}" for question in found for name in question.classes)
    return Meaning("questions", classes, tuple(found), tuple(notes))


def _find(cells: Sequence[Cell], wanted: TaskName | None) -> tuple[TaskName, str]:
    try:
        return find_task(cells, wanted)
    except LabelError as error:
        raise DataError(str(error)) from None


def _task_name(text: str, what: str) -> TaskName:
    for name in TASK_NAMES:
        if name == text.strip():
            return name
    raise DataError(f"the task of {what} is {text!r}: expected one of {', '.join(TASK_NAMES)}")


def _tasks_of(wanted: str | None, questions: Sequence[str]) -> dict[str, TaskName]:
    tasks = {}
    for part in wanted.split(",") if wanted else []:
        question, equals, name = (text.strip() for text in part.partition("="))
        if not equals or question not in questions:
            raise DataError(
                f"the table asks several questions, and --task says {part.strip()!r}: expected QUESTION=TASK for some "
                f"of {', '.join(questions)}"
            )
        tasks[question] = _task_name(name, f"the question {shown(question)}")
    return tasks


def _check_flags(columns: LabelColumns, wanted: TaskName | None) -> None:
    if wanted not in (None, "multi"):
        names = ", ".join(columns.names[:5])
        raise DataError(f"columns of 0 and 1 ({names}) are several labels: --task {wanted} needs a column 'label'")


def name_kinds(record: Record, place: str, classes: Sequence[str]) -> Record:
    """The record with what its boxes show as one of `classes`; of several questions the answer's name is enough."""
    named = []
    for kind in record.kinds:
        found = [name for name in classes if kind and (name == kind or name.endswith(f": {kind}"))]
        if kind and len(found) != 1:
            what = "answers several questions, so say which, as 'QUESTION: NAME'" if found else "is no label"
            raise DataError(
                f"{place}: a box shows {kind!r}, which {what}; labels are {', '.join(classes) or 'numbers'}"
            )
        named.append(found[0] if kind else "")
    return record._replace(kinds=tuple(named))
