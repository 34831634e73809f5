"""What comes of an image: a `Prediction`, or a `Failure` that says why not."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from saccade.looking import Look
from saccade.tasks.task import Said


class Box(NamedTuple):
    """A place the model looked at closely, in pixels of the image as it came; right and bottom are exclusive.

    It may reach over the border, where the model saw zeros. score is in [0, 1] for most selections, higher is better,
    and None for systems that look without scoring places. labels: of several that were said, those it speaks for.
    """

    left: int
    top: int
    right: int
    bottom: int
    score: float | None
    labels: tuple[str, ...] = ()


class Prediction(NamedTuple):
    """What the model says of one image, and where it looked.

    label:         what is said, written as in tables of images: a class, several labels (`open;short`), a number.
    probabilities: of every class or label, in the order of the model; none of a number.
    look:          where it looked; its crops and picture are empty unless they were asked for.
    milliseconds:  reading and answering; images answered together share the time of the model.
    confidence:    the probability of the answer, of several labels that of the least sure one; NaN for a number.
    labels:        all that are said, where there may be several; None where one class or a number is said.
    value:         the number that is said, where it is one.
    answers:       to each of several questions, what is said; else empty.
    speaks_for:    of each box, for which of several labels it speaks (`saccade.looking.speakers`); else empty.
    decision:      what the model's rule decides, written like a label; None if it has none (`saccade.deciding`).
    review:        whether the decision is doubtful.
    """

    label: str
    probabilities: dict[str, float]
    look: Look
    milliseconds: float
    confidence: float = math.nan
    labels: tuple[str, ...] | None = None
    value: float | None = None
    answers: Mapping[str, Said] = {}
    speaks_for: tuple[tuple[str, ...], ...] = ()
    decision: str | None = None
    review: bool = False

    @property
    def boxes(self) -> tuple[Box, ...]:
        """Where it looked, best first; none for a system that looks everywhere."""
        scores = self.look.box_scores.tolist() or [None] * len(self.look.boxes)
        names = self.speaks_for or [()] * len(self.look.boxes)
        places = zip(self.look.boxes.tolist(), scores, names, strict=True)
        return tuple(Box(*box, score=score, labels=labels) for box, score, labels in places)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the image as it came."""
        return self.look.size


class Failure(NamedTuple):
    """Why there is no prediction for an image."""

    error: str
