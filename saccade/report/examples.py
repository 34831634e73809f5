"""Which images a report shows, and what the model sees in them."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.data.dataset import ImageDataset, batch_of_one
from saccade.data.records import Record, Records
from saccade.looking import Look, look_at, make_picture, who_speaks
from saccade.runs.prediction_tables import PredictionRow, PredictionTable
from saccade.system import System
from saccade.tasks.labels import label_names

LABELS = 12  # of several, those with a picture


def confident_mistakes(table: PredictionTable, count: int) -> list[PredictionRow]:
    """Wrong table, the surest first."""
    return sorted((row for row in table.rows if not row.right), key=lambda row: -row.confidence)[:count]


def typical_successes(table: PredictionTable, count: int) -> list[PredictionRow]:
    """Right table of as many classes as possible; in each class those of middling confidence first."""
    ranked = []
    for name in table.classes:
        named = [r for r in table.rows if r.right and name in label_names(table.task, r.label, table.questions)]
        rows = sorted(named, key=lambda row: row.confidence)
        middle = (len(rows) - 1) / 2
        ranked.append([rows[place] for place in sorted(range(len(rows)), key=lambda place: abs(place - middle))])
    found = {row.image: row for row in chain(*zip_longest(*ranked)) if row is not None}  # one may have several labels
    return list(found.values())[:count]


def found_labels(table: PredictionTable, count: int) -> dict[str, PredictionRow]:
    """Of several labels an image for each that was found: where all is right if there is one, of middling probability.

    One image is shown for one label only, if there are others.
    """
    chosen: dict[str, PredictionRow] = {}
    for place, name in enumerate(table.classes):
        rows = [row for row in table.rows if all(name in label_names("multi", t) for t in (row.label, row.predicted))]
        rows.sort(key=lambda row: row.probabilities[place])
        order = sorted(range(len(rows)), key=lambda at: abs(at - (len(rows) - 1) / 2))
        ranked = sorted((rows[at] for at in order), key=lambda row: (row in chosen.values(), not row.right))
        if ranked and len(chosen) < count:
            chosen[name] = ranked[0]
    return chosen


def example_groups(table: PredictionTable, count: int) -> dict[str, list[PredictionRow]]:
    """Wrong answers and right ones; of several labels each that was found; of numbers large errors and usual ones."""
    if table.task == "multi":
        found = found_labels(table, max(count, LABELS))
        return {
            "Wrong answers, the surest first": confident_mistakes(table, count),
            f"Labels that were found, an image for each: {', '.join(found)}": list(found.values()),
        }
    if table.task != "regression":
        return {
            "Wrong answers, the surest first": confident_mistakes(table, count),
            "Right answers, of usual confidence": typical_successes(table, count),
        }
    ranked = sorted(table.rows, key=lambda row: -abs(float(row.label) - float(row.predicted)))
    middle = max(0, len(ranked) // 2 - count // 2)
    return {"Largest errors": ranked[:count], "Usual errors": ranked[middle : middle + count]}


def of_class(table: PredictionTable, name: str, count: int) -> list[PredictionRow]:
    """Some images of a class, from all over the split, whatever the answer was."""
    rows = [row for row in table.rows if name in label_names(table.task, row.label, table.questions)]
    return from_all_over(rows, count)


def from_all_over(rows: Sequence[PredictionRow], count: int) -> list[PredictionRow]:
    """Up to `count` of them at even steps, in the order in which they come."""
    return [rows[place * len(rows) // count] for place in range(count)] if len(rows) > count else list(rows)


class Examined(NamedTuple):
    """What a model sees in an image, what it says of it, and of several labels which box speaks for which."""

    look: Look
    told: Float[Tensor, " told"]
    speaks_for: tuple[tuple[str, ...], ...] = ()


@torch.no_grad()
def examine(model: System, row: PredictionRow) -> Examined:
    """Show `model` an image as it saw it in the evaluation; `BadImage` if the file is gone.

    An image that was resized is shown as it was resized, and its boxes with it; of one that was cropped all is shown.
    """
    record = Record(Path(row.image), row.label, "test", row.boxes)
    preparation = model.config.preparation
    # Its label is not asked for: whatever it means, it is one.
    sample = ImageDataset(Records(Path(), (row.label,), (record,)), preparation=preparation)[0]
    shown = batch_of_one(sample.image)
    seen = model.take(preparation.see(shown.to(next(model.parameters()).device)))
    output = model(seen)
    size = (shown.shape[-2], shown.shape[-1])
    evidence = model.evidence(output) if model.task.names_several and output.chooses else None
    look = look_at(output, size=size, preparation=replace(preparation, resize=None), seen=seen, evidence=evidence)
    look = look._replace(picture=make_picture(sample.image), truth=sample.boxes.numpy())
    told = model.task.tell(output.logits[0].float()).cpu()
    return Examined(look, told, who_speaks(look, model.task, model.task.say(told).names))
