"""scores, missing detail → Selection: a start on which a feature network can learn to read.

At first the scorer chooses badly, so the feature network sees background only, and what it says of background teaches
the scorer nothing. For a share of the steps the slots therefore begin with the candidates whose detail the view lacks
most (`missing_detail`, which needs no label): there the network learns to read. After a third of the guided steps
half of the slots pass to the scorer, so that its own mistakes are looked at too. The choice is hard; the scorer learns
through `mixture_loss`.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.selection.selection import Selection, identity_selection


def guided_topk(scores: Float[Tensor, "B N"], detail: Float[Tensor, "B N"], k: int, *, own: int) -> Selection:
    """The `own` candidates of highest score and, of the rest, those that lack most detail: K in index order.

    >>> guided_topk(torch.tensor([[0.0, 0.9, 0.1, 0.8]]), torch.tensor([[3.0, 9.0, 5.0, 1.0]]), 2, own=1).index
    tensor([[1, 2]])
    """
    mine = scores.detach().topk(own, dim=1).indices
    ranked = detail.scatter(1, mine, torch.inf).topk(k, dim=1).indices
    return identity_selection(ranked.sort(dim=1).values, scores.dtype)
