"""What a selection module offers: the stage's protocol, with what it can do as attributes."""

from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from saccade.selection.candidates import Candidates
from saccade.selection.normalize import normalize_scores
from saccade.selection.selection import Selection


@runtime_checkable
class Selector(Protocol):
    """scores B N → `Selection`. A class that derives from this, after `nn.Module`, has the values below by default.

    k:            how many slots it fills; None: one for every candidate.
    sigma:        the noise it draws, which training lets fall to zero; None if it has none to change.
    score_order:  whether slots come in score order in training, and in index order in evaluation.
    samples_mean: whether slots are samples of an expectation, and only a mean over them is an estimate of anything.
    discrete:     whether evaluation looks at K sharp patches.
    repeatable:   whether evaluation chooses the same patches of the same image each time.
    """

    k: int | None = None
    sigma: float | None = None
    score_order: bool = False
    samples_mean: bool = False
    discrete: bool = True
    repeatable: bool = True

    @staticmethod
    def normalize(scores: Float[Tensor, "B N"]) -> Float[Tensor, "B N"]:
        """Raw scores as `forward` wants them."""
        return normalize_scores(scores)

    def forward(self, scores: Float[Tensor, "B N"], grid: Candidates | None = None) -> Selection:
        """Choose: as training wants it in training mode, as it will be used in evaluation mode."""
        ...

    def __call__(self, scores: Float[Tensor, "B N"], grid: Candidates | None = None) -> Selection:
        """`forward`, as torch calls it."""
        ...
