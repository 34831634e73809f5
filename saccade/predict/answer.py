"""What comes of an image: a `Prediction`, or a `Failure` that says why not."""

from typing import NamedTuple


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
    """The answer for one image.

    probabilities: of every class, in the order of the model.
    boxes:         where it looked, best first; none for a system that looks everywhere.
    size:          height and width of the image as it came.
    milliseconds:  reading and answering; images answered together share the time of the model.
    """

    label: str
    probabilities: dict[str, float]
    boxes: tuple[Box, ...]
    size: tuple[int, int]
    milliseconds: float


class Failure(NamedTuple):
    """Why there is no answer for an image."""

    error: str
