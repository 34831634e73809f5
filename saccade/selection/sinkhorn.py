"""scores → Selection by entropic optimal transport (Xie et al. 2020, Algorithm 3).

Γ = argmin ⟨C, Γ⟩ − ε H(Γ) with row sums 1/N and column sums ν = [(N−K)/N, 1/N, …, 1/N], where C_ij = (s_i − j)² is what
it costs to move candidate i to place j = 0 … K. Place 0 takes what is not chosen; slot j gets the weights N · Γ[:, j].

Terms of C that depend on i or j alone change the marginals' multipliers but not Γ, so P = N Γ is a softmax in each row,

    P_ij = exp(2 j s_i / ε + u_j) / Σ_l exp(2 l s_i / ε + u_l),

and only the K potentials u are unknown: those for which column j sums to N ν_j. Sinkhorn's iteration sets them one by
one, u_j += log(N ν_j / Σ_i P_ij), and needs some (cost / ε) rounds: at ε = 1e-4, N = 2028 and K = 10 the marginals are
still wrong by 0.9 after the usual 2000. Newton's step in all of u solves the K×K system κ δ = N ν − Σ_i P_i with
κ = diag(Σ_i P_i) − Pᵀ P, and from the exact plan (ε = 0, a sort) it needs about ten. Both have the same fixed point.

Gradient. Differentiating "column j sums to N ν_j" gives the change of u, again through κ. With G the gradient for P and
λ = κ⁻¹ Σ_i P_i (G_i − ⟨P_i, G_i⟩), all in O(N·K) memory:

    ∂s_i = (2/ε) Σ_j P_ij (j − Σ_l l P_il) (G_ij − λ_j).
"""

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from saccade.registry import register
from saccade.selection.candidates import Candidates
from saccade.selection.hard import hard_topk
from saccade.selection.refusals import check_k, check_scores, check_slots
from saccade.selection.selection import Selection
from saccade.selection.selector import Selector
from saccade.selection.sinkhorn_released import released_sinkhorn_topk
from saccade.selection.support import highest, reach, uncompiled

# Keeps κ regular where a slot is all but hard. There P_ij (j − Σ_l l P_il) is as small as κ, so what it takes away from
# the gradient is about RIDGE / ε.
RIDGE = 1e-12


@uncompiled
def sinkhorn_topk(
    scores: Float[Tensor, "B N"],
    k: int,
    *,
    epsilon: float = 1e-4,
    iterations: int = 2000,
    tolerance: float = 1e-6,
) -> Selection:
    """The entropic transport plan between the candidates and K places, by score: the last slot holds the highest.

    epsilon:    softness, in units of the scores: two candidates that compete for a slot share it as the logistic
                function of (difference / ε).
    iterations: at most so many steps; 2 to 15 are usual.
    tolerance:  stop as soon as every place has its mass up to this share of it. Each candidate always has its own.

    The plan is solved in float64, since exponents reach 2K/ε, and converted to the precision of the scores (float32 for
    half precision). A candidate that lies d below the (K+1)-th best has at most the weight K · exp(−2d/ε) in all slots
    together; those that add up to less than 1e-9 are left out, and the plan is that of the others. Scores are used as
    they are: see `normalize_scores`. Differentiable once.

    >>> scores = torch.tensor([[0.0, 1.0, 0.5]], requires_grad=True)
    >>> sinkhorn_topk(scores, 2).dense(3)
    tensor([[[0., 0., 1.],
             [0., 1., 0.]]], grad_fn=<ScatterAddBackward0>)
    """
    check_scores(scores)
    n = scores.shape[1]
    check_k(k, n)
    _check_options(epsilon, iterations, tolerance)
    with torch.autocast(scores.device.type, enabled=False):
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        places = min(k + 1, n)
        lowest = scores.detach().topk(places, dim=1).values[:, -1] - epsilon / 2 * reach(k, n)
        index = highest(scores, lowest, at_least=places)  # B S
        weight = _SinkhornTopK.apply(scores.gather(1, index), k, epsilon, iterations, tolerance)
    return Selection(index, weight)


class _SinkhornTopK(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores: Tensor, k: int, epsilon: float, iterations: int, tolerance: float) -> Tensor:
        plan = _solve(scores.double(), k, epsilon, iterations, tolerance)  # B S J
        ctx.save_for_backward(plan)
        ctx.epsilon = epsilon
        return plan[..., -k:].mT.to(scores.dtype).contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_weight: Tensor):
        (plan,) = ctx.saved_tensors
        places = plan.shape[2]
        grad = F.pad(grad_weight.mT.to(plan.dtype), (places - grad_weight.shape[1], 0))  # B S J
        centered = plan * (grad - (plan * grad).sum(dim=2, keepdim=True))
        grad = grad - _potentials(plan, centered.sum(dim=1))[:, None]
        place = torch.arange(places, dtype=plan.dtype, device=plan.device)
        slope = plan * (place - (plan @ place)[..., None])
        return (slope * grad).sum(dim=2).mul(2 / ctx.epsilon).to(grad_weight.dtype), None, None, None, None


def _solve(scores: Tensor, k: int, epsilon: float, iterations: int, tolerance: float) -> Tensor:
    """P, B S J. Place 0 is missing (J = K) where all candidates are chosen; then slot 1 plays its part, with mass 1."""
    n = scores.shape[1]
    places = min(k + 1, n)
    mass = scores.new_ones(places)
    mass[0] = n - places + 1
    scores = scores - scores.amax(dim=1, keepdim=True)  # the plan does not change, the exponents get smaller
    kernel = scores[..., None] * torch.arange(places, dtype=scores.dtype, device=scores.device) * (2 / epsilon)
    potential = _sorted_potential(scores, places) / epsilon
    plan = (kernel + potential[:, None]).softmax(dim=2)
    for _ in range(iterations):
        sums = plan.sum(dim=1)
        if (sums / mass - 1).abs().max() <= tolerance:
            break
        step = _potentials(plan, mass - sums)  # B J
        potential += step * _damping(step)
        plan = (kernel + potential[:, None]).softmax(dim=2)
    return plan


def _sorted_potential(scores: Tensor, places: int) -> Tensor:
    """ε · u of the exact plan: candidates prefer place j to j−1 from half-way between the two best fitting ones on."""
    best = scores.topk(places, dim=1).values.flip(1)
    return F.pad(-(best[:, 1:] + best[:, :-1]).cumsum(dim=1), (1, 0))


def _damping(step: Tensor) -> Tensor:
    """log(1 + r) / r, where r is the range of the step.

    Third derivatives of log Σ exp along v are at most range(v) times its second, and for such functions Newton's
    method with this damping converges from anywhere (Sun & Tran-Dinh 2019). As r → 0 it is Newton's own step.
    """
    size = (step.amax(dim=1, keepdim=True) - step.amin(dim=1, keepdim=True)).clamp(min=1e-12)
    return size.log1p() / size


def _potentials(plan: Tensor, change: Tensor) -> Tensor:
    """The potentials, 0 for the first place, that to first order change the columns' sums by `change`: κ⁻¹ change."""
    shared = plan.mT @ plan
    shared.diagonal(dim1=1, dim2=2).zero_()
    # Rows of P sum to one, so the diagonal of κ is a sum of what others share: no cancellation where P is nearly hard.
    kappa = torch.diag_embed(shared.sum(dim=2) + RIDGE) - shared
    return F.pad(torch.linalg.solve(kappa[:, 1:, 1:], change[:, 1:]), (1, 0))


def _check_options(epsilon: float, iterations: int, tolerance: float) -> None:
    if not 0 < epsilon < float("inf"):
        raise ValueError(f"epsilon is {epsilon}, expected a finite number > 0: the paper's code has 1e-4")
    if iterations < 1:
        raise ValueError(f"iterations is {iterations}, expected at least 1: a dozen is enough for newton")
    if not tolerance > 0:
        raise ValueError(f"tolerance is {tolerance}, expected a number > 0, such as 1e-6")


Solver = Literal["newton", "released"]
SOLVERS: dict[Solver, Callable[..., Selection]] = {"newton": sinkhorn_topk, "released": released_sinkhorn_topk}


@register("selection", "sinkhorn")
class SinkhornTopK(nn.Module, Selector):
    """Optimal transport: `sinkhorn_topk` in training; in evaluation `hard_topk` if `discrete`, else the same.

    With `discrete`, slots are in score order in training and in index order in evaluation.

    solver:     newton solves the plan; released is what the paper's authors released, plain iterations that end early.
    iterations: at most so many with newton, exactly so many with released.
    """

    k: int

    def __init__(
        self,
        k: int,
        *,
        epsilon: float = 1e-4,
        iterations: int = 2000,
        solver: Solver = "newton",
        discrete: bool = True,
    ):
        super().__init__()
        check_slots(k)
        _check_options(epsilon, iterations, tolerance=1.0)
        self.k = k
        self.solver: Solver = solver
        self.epsilon = epsilon
        self.iterations = iterations
        self.discrete = discrete
        self.score_order = discrete

    def forward(self, scores: Float[Tensor, "B N"], grid: Candidates | None = None) -> Selection:
        """Select softly in training mode, and in evaluation mode as `discrete` says."""
        if self.discrete and not self.training:
            return hard_topk(scores, self.k)
        return SOLVERS[self.solver](scores, self.k, epsilon=self.epsilon, iterations=self.iterations)
