"""Sinkhorn top-K as the paper's authors released it: 2000 plain iterations at ε = 1e-4, wherever they have got to.

Algorithm 3 of Xie et al. 2020, with the transport problem of `saccade.selection.sinkhorn`. Rows and columns of the plan
are set right in turn, columns last. Far from the end, as here (some cost / ε ≈ 250,000 rounds are needed), slots have
their mass but candidates have not: one that stands out fills several slots, and a crowd is blended. For reproducing
published numbers; `sinkhorn_topk` solves the plan.

Gradient: the algorithm's, which takes the plan for solved, whatever its row sums. With G the gradient for P = N Γ,

    α_i + Σ_j P_ij β_j = Σ_j G_ij P_ij,   Σ_i P_ij α_i + N ν_j β_j = Σ_i G_ij P_ij,   β_0 = 0,
    ∂s_i = (2/ε) Σ_j (α_i + β_j − G_ij) P_ij (s_i − j).
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from saccade.selection.refusals import check_k, check_scores
from saccade.selection.selection import Selection
from saccade.selection.support import NEGLIGIBLE, uncompiled

# Hard slots make the system for β singular; what is divided by it is zero there up to rounding.
RIDGE = 1e-9


@uncompiled
def released_sinkhorn_topk(
    scores: Float[Tensor, "B N"], k: int, *, epsilon: float = 1e-4, iterations: int = 2000
) -> Selection:
    """The plan after `iterations` rounds, by score: the last slot holds the highest. Solved in float64.

    >>> scores = torch.tensor([[0.1, 1.0, 0.2, 0.0]])
    >>> released_sinkhorn_topk(scores, 2).dense(4).round()  # one candidate in both slots
    tensor([[[0., 1., 0., 0.],
             [0., 1., 0., 0.]]])
    """
    check_scores(scores)
    check_k(k, scores.shape[1])
    if k == scores.shape[1]:
        raise ValueError(f"k is {k} of {k} candidates: this selection needs one at least that is left out")
    with torch.autocast(scores.device.type, enabled=False):
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        weight = _ReleasedSinkhorn.apply(scores, k, epsilon, iterations)  # B K N
        # The higher a score, the less of it is left for place 0: those with a weight are the best of each image.
        count = int((weight.detach().amax(dim=1) > NEGLIGIBLE).sum(dim=1).max())
        index = scores.detach().topk(count, dim=1, sorted=False).indices.sort(dim=1).values  # B S
        return Selection(index, weight.gather(2, index[:, None].expand(-1, k, -1)))


class _ReleasedSinkhorn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores: Tensor, k: int, epsilon: float, iterations: int) -> Tensor:
        exact = scores.double()
        plan = _iterate(exact, k, epsilon, iterations)  # B J N
        ctx.save_for_backward(exact, plan)
        ctx.epsilon, ctx.dtype = epsilon, scores.dtype
        return plan[:, 1:].to(scores.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        scores, plan = ctx.saved_tensors
        slots, grad = plan[:, 1:], grad.double()  # B K N; place 0 has no gradient
        by_row = (grad * slots).sum(dim=1)  # B N
        by_column = (grad * slots).sum(dim=2)  # B K
        kappa = (1 + RIDGE) * torch.eye(slots.shape[1], dtype=slots.dtype, device=slots.device) - slots @ slots.mT
        beta = torch.linalg.solve(kappa, by_column - (slots @ by_row[..., None])[..., 0])  # B K
        alpha = by_row - (beta[:, None] @ slots)[:, 0]  # B N
        place = torch.arange(plan.shape[1], dtype=plan.dtype, device=plan.device)[:, None]
        away = plan * (scores[:, None] - place)  # B J N
        total = alpha * away.sum(dim=1) + ((beta[..., None] - grad) * away[:, 1:]).sum(dim=1)
        return total.mul(2 / ctx.epsilon).to(ctx.dtype), None, None, None


def _iterate(scores: Tensor, k: int, epsilon: float, iterations: int) -> Tensor:
    """P = N Γ, B J N. Candidates last, or a softmax over J places would be six times as slow on CPUs."""
    mass = scores.new_ones(k + 1, 1)
    mass[0] = scores.shape[1] - k
    place = torch.arange(k + 1, dtype=scores.dtype, device=scores.device)[:, None]
    log_plan = place * (2 * scores[:, None] - place) / epsilon
    for _ in range(iterations):
        log_plan = log_plan.log_softmax(dim=1)  # every candidate has its mass
        log_plan = log_plan + (mass.log() - log_plan.logsumexp(dim=2, keepdim=True))  # and then every place
    return log_plan.exp()
