"""What an aggregation offers: the stage's protocol, with what it can do as attributes."""

from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from saccade.registry import name_of
from saccade.selection import Candidates, Selection, Selector


@runtime_checkable
class Aggregator(Protocol):
    """Features of the slots B K D → pooled B `width`. Who derives from this, after `nn.Module`, has these values.

    width:         of what it gives.
    needs_cells:   whether it knows a position for each cell of a grid, so that there must be one.
    needs_order:   whether slot k must mean the same in training and in evaluation.
    means_samples: whether it is a mean of the slots, which is what a selection by samples estimates.
    answers_alone: whether a slot can be asked `alone`, as `mixture_loss` does.
    """

    width: int
    needs_cells: bool = False
    needs_order: bool = False
    means_samples: bool = False
    answers_alone: bool = True

    def forward(
        self, features: Float[Tensor, "B K D"], selection: Selection, grid: Candidates | None
    ) -> Float[Tensor, "B E"]:
        """Pool the slots."""
        ...

    def __call__(
        self, features: Float[Tensor, "B K D"], selection: Selection, grid: Candidates | None
    ) -> Float[Tensor, "B E"]:
        """`forward`, as torch calls it."""
        ...

    def alone(
        self, features: Float[Tensor, "B K D"], selection: Selection, grid: Candidates | None
    ) -> Float[Tensor, "B K E"]:
        """Each slot as if there were no other: unless it says otherwise, as it is."""
        return features

    def give(
        self, features: Float[Tensor, "B K D"], selection: Selection, grid: Candidates | None
    ) -> Float[Tensor, "B K E"] | None:
        """What each slot gives to the pooled features, which are the sum; None where they are no such sum."""
        return None

    def weigh(self, alone: Float[Tensor, "B K E"]) -> Float[Tensor, "B K"]:
        """How much a slot counts beside its score, in log units, where each is asked alone: all alike by default."""
        return alone.new_zeros(alone.shape[:2])


def check_together(selection: Selector, aggregation: Aggregator) -> None:
    """An aggregation must mean something for the slots of a selection."""
    if selection.samples_mean and not aggregation.means_samples:
        why = "its samples estimate the mean of the features under the attention, and nothing else; use mean"
    elif selection.score_order and aggregation.needs_order:
        why = "its slots are in score order in training and in index order at inference; use mean, max or attention"
    else:
        return
    raise ValueError(
        f"the selection {name_of(selection)} does not go with the aggregation {name_of(aggregation)}: {why}"
    )
