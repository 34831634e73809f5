"""What comes of an image: a `Prediction`, or a `Failure` that says why not."""

from typing import NamedTuple

from saccade.looking import Look


class Box(NamedTuple):
    """A place the model looked at closely, in pixels of the image as it came; right and bottom are exclusive.

    It may reach over the border, where the model saw zeros. score is in [0, 1] for most selections, higher is better,
    and None for systems that look without scoring places.
    """

    left: int
    top: int
    right: int
    bottom: int
    score: float | None


class Prediction(NamedTuple):
    """What the model says of one image, and where it looked.

    probabilities: of every class, in the order of the model.
    look:          where it looked; its crops and picture are empty unless they were asked for.
    milliseconds:  reading and answering; images answered together share the time of the model.
    """

    label: str
    probabilities: dict[str, float]
    look: Look
    milliseconds: float

    @property
    def boxes(self) -> tuple[Box, ...]:
        """Where it looked, best first; none for a system that looks everywhere."""
        scores = self.look.box_scores.tolist() or [None] * len(self.look.boxes)
        return tuple(Box(*box, score=score) for box, score in zip(self.look.boxes.tolist(), scores, strict=True))

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the image as it came."""
        return self.look.size


class Failure(NamedTuple):
    """Why there is no prediction for an image."""

    error: str
