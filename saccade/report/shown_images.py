"""The sections of a report that show images, and what the model looked at in them."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from saccade.drawing import Caption, overlay
from saccade.images.decode import BadImage
from saccade.looking import Look
from saccade.report.examples import confident_mistakes, examine, of_class, typical_successes
from saccade.report.numbers import percent
from saccade.report.plots import mosaic
from saccade.report.rendering import Picture, photo, pixels
from saccade.runs import RunFolder
from saccade.runs.prediction_tables import PredictionRow, PredictionTable
from saccade.runs.training_panels import Panel
from saccade.system import System

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
    groups = {
        "Wrong answers, the surest first": confident_mistakes(table, EXAMPLES),
        "Right answers, of usual confidence": typical_successes(table, EXAMPLES),
    }
    seen = {title: [(row, _see(model, row)) for row in rows] for title, rows in groups.items()}
    looks = [look for pairs in seen.values() for _, look in pairs if isinstance(look, Look)]
    return Examples(_key(looks), {title: [_example(*pair) for pair in pairs] for title, pairs in seen.items()})


def _see(model: System, row: PredictionRow) -> Look | BadImage:
    try:
        return examine(model, row).look
    except BadImage as error:
        return error


def _key(looks: Sequence[Look]) -> str:
    """How to read the pictures, as far as the system has what they show."""
    lines = {
        "Brighter is a higher score.": any(look.scores.size for look in looks),
        "Boxes are the patches looked at.": any(len(look.boxes) for look in looks),
        "They are numbered from the highest score on.": any(len(look.box_scores) for look in looks),
        "Dashed boxes are where the evidence is, where the data says so.": True,
        "Click a picture to enlarge it.": True,
    }
    return " ".join(line for line, applies in lines.items() if applies)


def _example(row: PredictionRow, look: Look | BadImage) -> Example:
    caption = Caption(row.predicted, row.confidence, row.label).text
    if isinstance(look, BadImage):
        return Example(look.path.name, caption, row.right, None, look.reason)
    name = Path(row.image).name
    return Example(name, caption, row.right, photo(overlay(look, width_in=6.5), f"{name}: {caption}"))


def show_gallery(model: System, table: PredictionTable) -> Gallery | None:
    """The best patch in some images of each class; None if no image could be read."""
    each = max(3, min(8, GALLERY_IMAGES // len(table.classes)))
    shown = table.classes[:GALLERY_CLASSES]
    seen = {name: [_see(model, row) for row in of_class(table, name, each)] for name in shown}
    looks = {name: [look for look in found if isinstance(look, Look)] for name, found in seen.items()}
    patches = {name: [look.crops[0] for look in found if len(look.crops)] for name, found in looks.items()}
    strips = {name: pixels(mosaic(crops), f"Patches of {name}") for name, crops in patches.items() if crops}
    if not any(looks.values()):
        return None
    if not strips:
        return Gallery("This system chooses none; there are no patches to show.", {})
    scored = any(len(look.box_scores) for found in looks.values() for look in found)
    which = "The patch with the highest score" if scored else "The first patch"
    left_out = len(table.classes) - len(shown)
    more = f" {left_out} classes more are not shown." if left_out else ""
    return Gallery(f"{which}, in {each} images of each class.{more}", strips)


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
