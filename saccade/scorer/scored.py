"""What a scorer offers, and what it says: scores of all candidates and, where it can, what it saw of the image."""

from typing import NamedTuple, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from saccade.extraction import ReceptiveField


class Scored(NamedTuple):
    """Raw scores, and the context E numbers wide: what was seen where they are high, and in all (E may be 0)."""

    scores: Float[Tensor, "B N"]
    context: Float[Tensor, "B E"]


@runtime_checkable
class Scorer(Protocol):
    """view B C h w → `Scored`.

    width: of the context.
    field: which part of the view a score is of.
    """

    width: int
    field: ReceptiveField

    def __call__(self, view: Float[Tensor, "B C h w"]) -> Scored:
        """One score per cell, row by row, for one size of candidates after the other; and the context."""
        ...
