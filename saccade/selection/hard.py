"""scores → Selection without noise: the best K, K at random, or all of them.

None of these has a gradient to the scores: the paper uses `hard_topk` at inference, `random_topk` is the floor any
scorer must beat, and `exhaustive` is how the paper casts multiple-instance learning and, but for a CNN's features and a
sum in place of a linear embedding and a class token, the vision transformer.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from saccade.registry import register
from saccade.selection.candidates import Candidates
from saccade.selection.normalize import inside_of
from saccade.selection.refusals import check_k, check_scores, check_slots
from saccade.selection.selection import Selection, identity_selection
from saccade.selection.selector import Selector


def hard_topk(scores: Float[Tensor, "B N"], k: int) -> Selection:
    """The K highest scores, in index order; among equal scores the lower index wins, on every device.

    >>> hard_topk(torch.tensor([[0.1, 0.9, 0.5, 0.9]]), 2).index
    tensor([[1, 3]])
    """
    check_scores(scores)
    check_k(k, scores.shape[1])
    best = scores.detach().sort(dim=1, descending=True, stable=True).indices[:, :k]  # topk breaks ties at will
    return identity_selection(best.sort(dim=1).values, scores.dtype)


def random_topk(
    scores: Float[Tensor, "B N"],
    k: int,
    *,
    inside: Bool[Tensor, "B N"] | None = None,
    generator: torch.Generator | None = None,
) -> Selection:
    """K different candidates drawn uniformly; of the scores only the shape, dtype and device play a part.

    inside: candidates that may be drawn; the others are drawn only where there are fewer than K of these.

    >>> random_topk(torch.zeros(1, 4), 4).index
    tensor([[0, 1, 2, 3]])
    """
    check_scores(scores)
    check_k(k, scores.shape[1])
    device = generator.device if generator is not None else scores.device
    lottery = torch.rand(scores.shape, generator=generator, device=device).to(scores.device)
    if inside is not None:
        lottery = lottery.masked_fill(~inside, -1)
    return identity_selection(lottery.topk(k, dim=1).indices.sort(dim=1).values, scores.dtype)


def exhaustive(scores: Float[Tensor, "B N"]) -> Selection:
    """All N candidates, one a slot. The identity is N×N numbers, shared by the batch: 16 MB at N = 2028.

    >>> exhaustive(torch.zeros(1, 3)).index
    tensor([[0, 1, 2]])
    """
    check_scores(scores)
    batch, n = scores.shape
    return identity_selection(torch.arange(n, device=scores.device).expand(batch, n), scores.dtype)


@register("selection", "hard")
class HardTopK(nn.Module, Selector):
    """The K highest scores in training and in evaluation: the scorer gets no gradient."""

    k: int

    def __init__(self, k: int):
        super().__init__()
        check_slots(k)
        self.k = k

    def forward(self, scores: Float[Tensor, "B N"], grid: Candidates | None = None) -> Selection:
        """Select the K highest scores."""
        return hard_topk(scores, self.k)


@register("selection", "random")
class RandomTopK(nn.Module, Selector):
    """`random_topk`: a new draw at every call, in training and in inference."""

    k: int
    repeatable = False

    def __init__(self, k: int):
        super().__init__()
        check_slots(k)
        self.k = k

    def forward(self, scores: Float[Tensor, "B N"], grid: Candidates | None = None) -> Selection:
        """Select K candidates at random, none of which `grid` knows to lie in padding."""
        return random_topk(scores, self.k, inside=inside_of(grid))


@register("selection", "exhaustive")
class Exhaustive(nn.Module, Selector):
    """`exhaustive` as a stage: as many slots as the model's grid has candidates."""

    def forward(self, scores: Float[Tensor, "B N"], grid: Candidates | None = None) -> Selection:
        """Select every candidate."""
        inside = inside_of(grid)
        # A graph has no values to look at.
        if inside is not None and not torch.compiler.is_compiling() and not inside.all():
            raise ValueError(
                "exhaustive selection would look at the padding of a batch of images of different sizes: give all of "
                "them one size with model.preparation.resize"
            )
        return exhaustive(scores)
