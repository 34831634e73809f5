"""What a system says, and where it looked: one type for all of them."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from saccade.selection import Candidates, Selection


class Choice(NamedTuple):
    """The choice behind an `Output`, of a system that chooses patches by scores: all of it is there."""

    raw_scores: Float[Tensor, "B N"]
    scores: Float[Tensor, "B N"]
    selection: Selection
    grid: Candidates
    features: Float[Tensor, "B K D"]
    context: Float[Tensor, "B E"]


class Output(NamedTuple):
    """What a system says and, as far as it chooses where to look, where it looked; None where it has no such thing.

    logits:     of every class.
    raw_scores: the scorer's own; `scores` are those that selection sees, normalized per image.
    selection:  the candidates that matter, and how much of each is in every slot.
    boxes:      left, top, right, bottom, in pixels of the image as the model saw it: of the candidates in
                `selection.index` (of a hard selection exactly the patches that were looked at), or of whatever else
                was looked at.
    grid:       all candidates.
    features:   of the slots.
    context:    what was seen of the whole image beside the slots (of width 0 where nothing was).
    """

    logits: Float[Tensor, "B L"]
    raw_scores: Float[Tensor, "B N"] | None = None
    scores: Float[Tensor, "B N"] | None = None
    selection: Selection | None = None
    boxes: Int[Tensor, "B S 4"] | None = None
    grid: Candidates | None = None
    features: Float[Tensor, "B K D"] | None = None
    context: Float[Tensor, "B E"] | None = None

    @property
    def chooses(self) -> bool:
        """Whether some places were preferred to others: to look everywhere is no choice, and its scores mean nothing.

        >>> Output(torch.zeros(1, 4)).chooses
        False
        """
        if self.boxes is None:
            return False
        everything = self.raw_scores is not None and self.boxes.shape[1] == self.raw_scores.shape[1]
        return not (everything and self.selection is not None and self.selection.hard)

    @property
    def choice(self) -> Choice:
        """What stands behind the boxes; an error for a system that does not choose by scores."""
        values = self.raw_scores, self.scores, self.selection, self.grid, self.features, self.context
        if any(value is None for value in values):
            raise ValueError("this system does not choose patches by scores, so there is nothing to say of its choice")
        return Choice(*values)  # pyright: ignore[reportArgumentType]

    @property
    def used(self) -> Bool[Tensor, "B S"]:
        """Which of the boxes were looked at: of a soft selection not those that only fill up the batch."""
        if self.boxes is None:
            return torch.zeros(len(self.logits), 0, dtype=torch.bool, device=self.logits.device)
        if self.selection is None:
            return torch.ones(self.boxes.shape[:2], dtype=torch.bool, device=self.boxes.device)
        return self.selection.used[:, : self.boxes.shape[1]]
