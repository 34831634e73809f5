"""What a table is made of. Nothing here imports torch: the command line lists tables without it."""

import re
from typing import Literal, NamedTuple

Scale = Literal["small", "full"]
SCALES: tuple[Scale, ...] = ("small", "full")
Choice = Literal["soft", "discrete"]


class Plan(NamedTuple):
    """How a row is run: a recipe, and flags for what differs from it; a `pretrained` one starts from --weights.

    selection: read the row from an evaluation with patches chosen so, not from the run's own. It is not part of the
               training: rows that differ in it alone share a run.
    own:       `recipe` is the place of a data set, trained as one's own images are: the rest is chosen by itself.
    made_by:   of such a set, the recipe that says how it is generated; "" if it is not.
    """

    recipe: str
    flags: tuple[str, ...] = ()
    pretrained: bool = False
    selection: Choice | None = None
    own: bool = False
    made_by: str = ""


class Row(NamedTuple):
    """A row: its name in file names, its label, the paper's number as text, and how it is run at each scale.

    seeds:      small runs if not told otherwise: 3 of rows whose order is the claim, 1 of the rest.
    full_seeds: runs at full size: as many as the paper has.
    group:      the data set, in tables that have several.
    """

    name: str
    label: str
    paper: str = "–"
    small: Plan | None = None
    full: Plan | None = None
    seeds: int = 1
    full_seeds: int = 1
    group: str = ""

    def plan(self, scale: Scale) -> Plan | None:
        """How it is run at a scale; None if it is not."""
        return {"small": self.small, "full": self.full}[scale]

    @property
    def paper_number(self) -> float | None:
        """The number that the paper's text begins with, if it begins with one.

        >>> Row("ats", "ATS", "88.6 ± 1.1 (its authors 91.1 ± 0.2)").paper_number
        88.6
        """
        first = re.match(r"\d+(\.\d+)?\b", self.paper)
        return float(first[0]) if first else None

    def runs(self, scale: Scale) -> int:
        """How often it is run at a scale."""
        return {"small": self.seeds, "full": self.full_seeds}[scale]


class Measure(NamedTuple):
    """A number of each run that the table shows, times `scale`.

    `fixed` ones are the same in all runs of a row and have no spread.
    """

    name: str
    title: str
    scale: float = 100.0
    digits: int = 1
    fixed: bool = False


MEAN, MEDIAN = "mean ± s.d.", "median ± MAD"
ACCURACY = Measure("accuracy", "accuracy [%]")
TRAIN_ACCURACY = Measure("train_accuracy", "train accuracy [%]")
HIT_RATE = Measure("hit_rate", "hit rate [%]")
STEPS_TO_50 = Measure("steps_to_50", "steps to 50%", 1.0, 0)
OVERLAP = Measure("mutual_overlap", "mutual overlap [%]")
MULTIPLY_ADDS = Measure("multiply_adds", "million multiply-adds", 1e-6, 0, fixed=True)


NOT_IN_PAPER = "not in the paper"


class Group(NamedTuple):
    """A data set with a line of its own: what is measured on it, what is to be reached, and what was reached before."""

    name: str
    label: str
    measure: Measure
    goal: str
    before: str


class Table(NamedTuple):
    """A table of the paper, or one of ours.

    source:    where it is in the paper, or `NOT_IN_PAPER` and what else there is to say.
    statistic: `MEAN` or `MEDIAN`, as the paper's table has it.
    measures:  its columns; the first is plotted.
    shown:     rows whose selection is drawn.
    note:      what the reader must know beside the numbers.
    small:     what else, of the small runs.
    groups:    the data sets, of tables with a line for each of them and a column for each label of the rows.
    """

    name: str
    title: str
    source: str
    statistic: str
    rows: tuple[Row, ...]
    measures: tuple[Measure, ...] = (ACCURACY,)
    shown: tuple[str, ...] = ()
    note: str = ""
    small: str = ""
    groups: tuple[Group, ...] = ()

    @property
    def ours(self) -> bool:
        """Whether the paper has no such table."""
        return self.source.startswith(NOT_IN_PAPER)


def choose(table: Table, names: tuple[str, ...], scale: Scale) -> tuple[Row, ...]:
    """The rows called `names`, or all, that exist at `scale`; what is not there is an error that lists what is."""
    there = {row.name: row for row in table.rows if row.plan(scale)}
    if unknown := [name for name in names if name not in there]:
        raise ValueError(
            f"the table {table.name} has no row {', '.join(unknown)} at scale {scale}; "
            f"it has {', '.join(there) or 'none'}"
        )
    if not there:
        raise ValueError(f"the table {table.name} does not exist at scale {scale}: try the other one")
    return tuple(row for name, row in there.items() if not names or name in names)
