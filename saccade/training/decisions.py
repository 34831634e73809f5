"""What was asked of decisions → a rule, chosen on images that the model did not learn from, and kept with the model.

Of a run these are its validation images, as its evaluation has them; of runs in folds all images, each answered by the
model that had not seen its fold.
"""

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch

from saccade.data.records import DataError, Records
from saccade.deciding import Costs, DecisionRule, Thresholds, cost_matrix
from saccade.evaluation import wilson_interval
from saccade.evaluation.calibration import temperature_band
from saccade.evaluation.thresholds import Aim, choose_threshold, cost, f1, images_needed, precision, recall
from saccade.runs.fold_folder import FoldFolder
from saccade.runs.prediction_tables import PredictionTable
from saccade.runs.run_folder import RunFolder
from saccade.tasks.labels import label_names
from saccade.tasks.single import Single

FLAGS = "--recall, --precision, --cost or --f1"
WHY_NOT = {
    "ordinal": "the answer is a level, between the others",
    "regression": "the answer is a number",
    "questions": "there are several questions; train a run for the one to be decided",
}


class Wish(NamedTuple):
    """What decisions are to do: one of these.

    recall, precision: the share of a class that is found, or of what is found that is of the class, at least.
    cost: mistakes and what they cost beside one that is not named, `TRUTH:SAID=20`; of several labels `LABEL=20`, which
          is what missing it costs.
    f1:   thresholds of the best F1.
    """

    recall: float | None = None
    precision: float | None = None
    cost: tuple[str, ...] = ()
    f1: bool = False

    def __bool__(self) -> bool:
        return self != Wish()

    def check(self) -> None:
        """Refuse wishes that cannot go together, and shares that are none."""
        if sum(bool(each) or each == 0.0 for each in (self.recall, self.precision, self.cost, self.f1 or None)) > 1:
            raise ValueError(f"decisions have one aim: give one of {FLAGS}")
        for name, share in (("recall", self.recall), ("precision", self.precision)):
            if share is not None and not 0 < share <= 1:
                raise ValueError(f"--{name} is {share:g}: expected a share above 0, at most 1, such as 0.95")

    def aim(self) -> Aim:
        """As a threshold is chosen for it."""
        if self.recall is not None:
            return recall(self.recall)
        return precision(self.precision) if self.precision is not None else f1()


class Chosen(NamedTuple):
    """A rule, and what to say of it, line by line."""

    rule: DecisionRule
    lines: list[str]


def decide_run(files: RunFolder, records: Records, wish: Wish, positive: str | None) -> list[str]:
    """Choose the rule of a run on its validation images and keep it with the best model; returns what to say."""
    wish.check()
    if files.recipe().get("final"):
        raise ValueError(
            f"{files.path} was trained on its validation images too, so its answers to them say nothing of others: "
            "train with final false, or with --folds"
        )
    table = files.predictions().get("val")
    if table is None:
        raise DataError(
            f"{files.path} has no validation images to choose a threshold on: train with a split val, or with --folds"
        )
    group = {os.path.abspath(record.image): record.group for record in records.records}
    groups = [group.get(row.image) or row.image for row in table.rows]
    model = files.load_best().config
    chosen = choose_rule(table, groups, wish, positive or model.positive, "validation images")
    files.change_best(decision=chosen.rule.spec())
    return chosen.lines


def decide_folds(folds: FoldFolder, wish: Wish, positive: str | None) -> list[str]:
    """The same of runs in folds: one rule for all of their models."""
    wish.check()
    found, runs = folds.out_of_fold(), folds.runs()
    groups = [row.group or row.said.image for row in found.rows]
    first = next(iter(runs.values())).load_best().config
    chosen = choose_rule(found.table, groups, wish, positive or first.positive, "images out of their fold")
    for run in runs.values():
        run.change_best(decision=chosen.rule.spec())
    return chosen.lines


def choose_rule(table: PredictionTable, groups: Sequence[str], wish: Wish, positive: str | None, what: str) -> Chosen:
    """The rule that does what is wished for on the images of a table.

    groups:   of each image, a name; equal ones belong together.
    positive: the class or label to be found; None where that is not known, of several labels all of them.
    what:     what the images are called in messages.
    """
    if table.task in WHY_NOT:
        raise ValueError(f"{FLAGS}: a threshold has no meaning here, for {WHY_NOT[table.task]}; leave it out")
    if positive is not None and positive not in table.classes:
        raise ValueError(f"positive is {positive!r}: no such class; there are {', '.join(map(repr, table.classes))}")
    if table.task == "multi":
        return _choose_labels(table, groups, wish, positive, what)
    costs = _read_costs(wish.cost, "TRUTH:SAID=20")
    cost_matrix(table.classes, costs)  # refuses what names no mistake
    if costs and len(table.classes) > 2:
        return _choose_costs(table, groups, costs, what)
    if positive is None:
        raise ValueError(
            f"which class is to be found? Name it with --positive: one of {', '.join(map(repr, table.classes))}"
        )
    aim = wish.aim()
    if costs:
        (other,) = (name for name in table.classes if name != positive)
        aim = cost(costs.get(f"{positive}:{other}", 1.0), costs.get(f"{other}:{positive}", 1.0))
    return _chosen(table, groups, {positive: aim}, what, several=False)


def _choose_labels(
    table: PredictionTable, groups: Sequence[str], wish: Wish, positive: str | None, what: str
) -> Chosen:
    costs = _read_costs(wish.cost, "LABEL=20")
    if unknown := [name for name in costs if name not in table.classes]:
        raise ValueError(f"the cost of {unknown[0]!r}: no such label; there are {', '.join(map(repr, table.classes))}")
    names = costs or ([positive] if positive else table.classes)
    aims = {name: cost(costs[name]) if costs else wish.aim() for name in names}
    return _chosen(table, groups, aims, what, several=True)


def _read_costs(words: Sequence[str], example: str) -> dict[str, float]:
    costs = {}
    for word in words:
        name, _, number = word.rpartition("=")
        try:
            costs[name.strip()] = float(number)
        except ValueError:
            costs[name.strip()] = -1.0
        if not name or not 0 < costs[name.strip()] < float("inf"):
            raise ValueError(f"--cost {word}: expected {example}, a mistake and what it costs")
    return costs


def _chosen(
    table: PredictionTable, groups: Sequence[str], aims: Mapping[str, Aim], what: str, *, several: bool
) -> Chosen:
    thresholds, lines = {}, []
    alike = {aim.asked for aim in aims.values()} if len(aims) > 1 and len(aims) == len(table.classes) else ()
    asked = "; ".join(f"{aim.asked} of {name!r}" for name, aim in aims.items())
    asked = f"{next(iter(alike))} of each label" if len(alike) == 1 else asked
    for name, aim in aims.items():
        share = np.array([row.probabilities[table.classes.index(name)] for row in table.rows])
        there = np.array([name in label_names(table.task, row.label) for row in table.rows])
        found = choose_threshold(share, there, aim, groups=groups)
        if found is None:
            why = _why_none(share, there, name, aim, what)
            if not several or len(aims) == 1:
                raise DataError(f"{why}; nothing was changed")
            lines.append(f"{why}: {name!r} is said from one half on")
            continue
        thresholds[name] = [*found]
        said = share >= found.at
        lines.append(
            f"{name!r} is said from {found.at:.3g} on, and is for review between {found.low:.3g} and {found.high:.3g}: "
            f"{_share(there & said, there, 'found')}, {_share(there & said, said, 'of those said are right')}"
        )
        lines += _too_few(there, groups, name, aim, what)
    if not thresholds:
        raise DataError(f"no label has a threshold for {next(iter(aims.values())).asked}; nothing was changed")
    return Chosen(Thresholds(table.classes, asked, thresholds, several), lines)


def _share(part: np.ndarray, whole: np.ndarray, what: str) -> str:
    if not whole.any():
        return f"none {what}"
    low, high = wilson_interval(int(part.sum()), int(whole.sum()))
    return f"{part.sum():,} of {whole.sum():,} {what} (95%: {100 * low:.1f}–{100 * high:.1f})"


def _why_none(share: np.ndarray, there: np.ndarray, name: str, aim: Aim, what: str) -> str:
    if not there.any():
        return f"none of {len(there):,} {what} has {name!r}, so no threshold can be chosen for it"
    best = max(there[share >= cut].mean() for cut in share[there])
    return f"no threshold of {name!r} reaches {aim.asked} on {len(there):,} {what}: {best:.3g} at best; ask for less"


def _too_few(there: np.ndarray, groups: Sequence[str], name: str, aim: Aim, what: str) -> list[str]:
    """A line, if even finding all of them would not show the recall that was asked for."""
    kind, _, wanted = aim.asked.partition(" ")
    count = len({group for group, mine in zip(groups, there, strict=True) if mine})
    if kind != "recall" or count >= images_needed(float(wanted)):
        return []
    unit = "groups" if count < there.sum() else "images"
    low, _ = wilson_interval(count, count)
    needed = images_needed(float(wanted))
    enough = f"{needed:,} would do" if needed else "no number of images can"
    return [
        f"note: {count:,} {unit} of {name!r} among the {what} cannot show a recall of {wanted}: if all are found, it "
        f"is {low:.1%} or more (95%); {enough}"
    ]


def _choose_costs(table: PredictionTable, groups: Sequence[str], costs: dict[str, float], what: str) -> Chosen:
    """Of more than two classes: by expected costs, doubtful where the temperature decides."""
    asked = f"costs {', '.join(f'{pair}={value:g}' for pair, value in costs.items())}"
    told = torch.tensor([row.probabilities for row in table.rows], dtype=torch.float64)
    target = torch.tensor([table.classes.index(row.label) for row in table.rows])
    band = temperature_band(Single(table.classes), told.clamp(min=1e-300).log(), target, list(groups))
    rule = Costs(table.classes, asked, costs, (1 / band.high, 1 / band.low))
    place = {name: number for number, name in enumerate(table.classes)}

    def mean(said: Sequence[str]) -> float:
        return float(
            np.mean([rule.matrix[place[row.label]][place[each]] for row, each in zip(table.rows, said, strict=True)])
        )

    decided = [rule.decide(row.probabilities) for row in table.rows]
    here, plain = mean([each.label for each in decided]), mean([row.predicted for row in table.rows])
    review = float(np.mean([each.review for each in decided]))
    line = (
        f"said is what costs least by its probabilities: {here:.3g} an image on {len(table.rows):,} {what}, "
        f"{plain:.3g} by the likeliest class; for review are {review:.1%}, decided otherwise at a temperature "
        f"of {band.low:.3g} or {band.high:.3g} times this one"
    )
    return Chosen(rule, [line])
