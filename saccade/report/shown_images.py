"""The sections of a report that show images, and what the model looked at in them."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from saccade.drawing import Caption, overlay
from saccade.images.decode import BadImage
from saccade.looking import Look
from saccade.report.examples import Examined, examine, example_groups, of_class
from saccade.report.numbers import percent
from saccade.report.plots import mosaic
from saccade.report.rendering import Picture, photo, pixels
from saccade.runs import RunFolder
from saccade.runs.prediction_tables import PredictionRow, PredictionTable
from saccade.runs.training_panels import Panel
from saccade.system import System
from saccade.tasks.task import Task

EXAMPLES = 6  # right answers, and wrong ones
GALLERY_CLASSES, GALLERY_IMAGES = 10, 40
SHARPENED = 3  # images whose selection is shown at each moment


class Example(NamedTuple):
    """An answer and a picture of where it came from, or why there is none."""

    image: str
    caption: str
    right: bool
    picture: Picture | None
    problem: str = ""


class Examples(NamedTuple):
    """Answers in groups, and how to read their pictures."""

    key: str
    groups: dict[str, list[Example]]


class Gallery(NamedTuple):
    """Patches side by side, a strip for each class."""

    note: str
    strips: dict[str, Picture]


class Moment(NamedTuple):
    """A picture of one image during training, and when that was."""

    picture: Picture
    text: str


def show_examples(model: System, table: PredictionTable) -> Examples:
    """Wrong answers and right ones."""
    groups = example_groups(table, EXAMPLES)
    seen = {title: [(row, _see(model, row)) for row in rows] for title, rows in groups.items()}
    looks = [each.look for pairs in seen.values() for _, each in pairs if isinstance(each, Examined)]
    return Examples(_key(looks), {title: [_example(*pair) for pair in pairs] for title, pairs in seen.items()})


def _see(model: System, row: PredictionRow) -> Examined | BadImage:
    try:
        return examine(model, row)
    except BadImage as error:
        return error


def _key(looks: Sequence[Look]) -> str:
    """How to read the pictures, as far as the system has what they show."""
    lines = {
        "Brighter is a higher score.": any(look.scores.size for look in looks),
        "Boxes are the patches looked at.": any(len(look.boxes) for look in looks),
        "They are numbered from the highest score on.": any(len(look.box_scores) for look in looks),
        "A name beside a number: the label that the box speaks for.": any(look.evidence.size for look in looks),
        "Dashed boxes are where the evidence is, where the data says so.": True,
        "Click a picture to enlarge it.": True,
    }
    return " ".join(line for line, applies in lines.items() if applies)


def _example(row: PredictionRow, seen: Examined | BadImage) -> Example:
    caption = Caption(row.predicted, row.confidence, row.label).text
    if isinstance(seen, BadImage):
        return Example(seen.path.name, caption, row.right, None, seen.reason)
    name, tags = Path(row.image).name, [", ".join(names) for names in seen.speaks_for]
    picture = overlay(seen.look, tags=tags, kinds=row.kinds, width_in=6.5)
    return Example(name, caption, row.right, photo(picture, f"{name}: {caption}"))


def show_gallery(model: System, table: PredictionTable) -> Gallery | None:
    """The best patch in some images of each class; None if no image could be read."""
    names = table.classes or ("all images",)
    each = max(3, min(8, GALLERY_IMAGES // len(names)))
    shown = names[:GALLERY_CLASSES]
    rows = {name: of_class(table, name, each) if table.classes else list(table.rows[:each]) for name in shown}
    seen = {name: [_see(model, row) for row in rows[name]] for name in shown}
    looks = {name: [e.look for e in found if isinstance(e, Examined)] for name, found in seen.items()}
    patches = {name: [_best_crop(look, model.task, name) for look in found] for name, found in looks.items()}
    patches = {name: [crop for crop in crops if crop is not None] for name, crops in patches.items()}
    strips = {name: pixels(mosaic(crops), f"Patches of {name}") for name, crops in patches.items() if crops}
    if not any(looks.values()):
        return None
    if not strips:
        return Gallery("This system chooses none; there are no patches to show.", {})
    scored = any(len(look.box_scores) for found in looks.values() for look in found)
    which = "The patch with the highest score" if scored else "The first patch"
    if any(look.evidence.size for found in looks.values() for look in found):
        which = "The patch that speaks most for the label"
    left_out = len(names) - len(shown)
    more = f" {left_out} classes more are not shown." if left_out else ""
    return Gallery(f"{which}, in {each} images of each class.{more}", strips)


def _best_crop(look: Look, task: Task, name: str) -> UInt8[np.ndarray, "P Q 3"] | None:
    """The crop that adds most to the logit of a label or, where that is not known, the first."""
    if not len(look.crops):
        return None
    logit = task.logit_of(name) if look.evidence.size and name in task.classes else None
    return look.crops[0 if logit is None else int(look.evidence[:, logit].argmax())]


def show_sharpening(folder: RunFolder) -> list[list[Moment]]:
    """The same images at the start, in the middle and at the end of training: a row for each image."""
    steps = folder.panel_steps()
    places = sorted({0, len(steps) // 2, len(steps) - 1}) if steps else []
    panels = [folder.panel(steps[place]) for place in places]
    count = min((len(panel.looks) for panel in panels), default=0)
    return [[_moment(panel, number) for panel in panels] for number in range(min(SHARPENED, count))]


def _moment(panel: Panel, number: int) -> Moment:
    done = panel.progress
    when = "start" if done <= 0 else "end" if done >= 1 else f"after {percent(done, 0)} of training"
    noise = "" if math.isnan(panel.sigma) else f", σ = {panel.sigma:.3f}" if panel.sigma else ", no noise"
    text = f"{when}: step {panel.step:,}{noise}"
    return Moment(photo(overlay(panel.looks[number], width_in=5.0), f"Where the model looks; {text}"), text)
