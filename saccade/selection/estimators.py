"""Three estimates of the gradient of ⟨G, E[Y(s + σZ)]⟩ with respect to the scores s.

Y is the K×N indicator of the index-sorted top-K, G the gradient that arrives for it, f(Y) = ⟨G, Y⟩.

conditional  E[ p((τ_d − s_d)/σ)/σ · (f(with d) − f(without d)) ]. Given the noise of all others, candidate d is chosen
             iff s_d + σ z_d exceeds τ_d, the K-th best of the others; only the crossing of that threshold matters.
             At the paper's size its variance is 270 times below that of `score` on uniform scores, and 820 times
             below that of the same equation without pruning (benchmarks/bench_gradients.py).
score        E[ (f(Y) − f̄) · ν′(Z) ] / σ, the paper's equation J = E[Y Zᵀ]/σ with a leave-one-out baseline. Unbiased.
diagonal     Σ_k G[k, d] · E[ Y[k, d] · ν′(Z_d) ] / σ, what the paper's listing computes. BIASED: it drops every term
             in which d's noise moves another candidate's indicator. Only for reproducing published numbers.

G and the positions in `Draws` refer to the support; the score estimate alone also reaches the other kept candidates.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from saccade.selection.draws import Draws, chunks_of_draws, mean_indicators, noise_chunks
from saccade.selection.noise import Noise
from saccade.selection.selection import Selection


class Perturbation(NamedTuple):
    """All that happened in the forward pass, as far as a gradient needs it."""

    kept: Int[Tensor, "B U"]  # candidates that noise could reach
    kept_scores: Float[Tensor, "B U"]
    support: Int[Tensor, "B S"]  # positions among the kept, ascending
    draws: Draws  # best: positions among the support
    sigma: float
    noise: Noise
    seed: int


Gradient = Callable[[Tensor, Perturbation], Tensor]


def mean_selection(scores: Float[Tensor, "B N"], past: Perturbation, gradient: Gradient) -> Selection:
    """The mean of the draws. The scores get `gradient`: from G and the past, that of the kept scores."""
    return Selection(past.kept.gather(1, past.support), _Mean.apply(scores, past, gradient))


class _Mean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores: Tensor, past: Perturbation, gradient: Gradient) -> Tensor:
        ctx.past, ctx.gradient, ctx.num_candidates = past, gradient, scores.shape[1]
        return mean_indicators(past.draws, past.support.shape[1])

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_weight: Tensor):
        past: Perturbation = ctx.past
        grad_kept = ctx.gradient(grad_weight.to(past.kept_scores.dtype), past)
        return grad_kept.new_zeros(len(grad_kept), ctx.num_candidates).scatter(1, past.kept, grad_kept), None, None


def conditional_gradient(grad: Float[Tensor, "B K S"], past: Perturbation) -> Float[Tensor, "B U"]:
    """Move candidate d across its threshold in every draw, weighted by the density of the crossing."""
    scores = past.kept_scores.gather(1, past.support)  # B S
    total = torch.zeros_like(scores)
    num_samples = past.draws.best.shape[1]
    for chunk in chunks_of_draws(num_samples, scores.numel(), scores.device):
        draws = Draws(*(part[:, chunk] for part in past.draws))
        members = draws.best.sort(dim=-1).values  # B m K+1
        leave, join = _swaps(grad, draws.best, members)
        leave *= past.noise.density((draws.next_value[..., None] - _rows(scores, members)) / past.sigma)
        join *= past.noise.density((draws.kth_value[..., None] - scores[:, None]) / past.sigma)
        join.scatter_(2, draws.best[..., :-1], 0.0)  # the chosen can only leave
        total += join.sum(dim=1)
        total.scatter_add_(1, members.flatten(1), leave.flatten(1))
    total /= num_samples * past.sigma
    return torch.zeros_like(past.kept_scores).scatter(1, past.support, total)


def _swaps(grad: Tensor, best: Tensor, members: Tensor) -> tuple[Tensor, Tensor]:
    """f(with d) − f(without d) for d among the K+1 best (B m K+1), and for d = any of the support joining (B m S).

    Slots stay in index order, so a swap shifts every slot between the two places. Let t be the K+1 best in index
    order: f of all but t_j is Σ_{i<j} G[i, t_i] + Σ_{i>j} G[i−1, t_i], two prefix sums for all j at once.
    """
    k = grad.shape[1]
    kth_at = (members < best[..., k - 1 : k]).sum(-1, keepdim=True)  # B m 1
    next_at = (members < best[..., k:]).sum(-1, keepdim=True)
    without = _prefix(_slots(grad, members[..., :-1])) + _suffix(_slots(grad, members[..., 1:]))  # B m K+1
    value = without.gather(2, next_at)  # B m 1: f of the draw itself

    # A newcomer d takes the K-th's place among the other K−1, at slot #{others < d}.
    place = torch.arange(k - 1, device=best.device).expand(*best.shape[:2], -1)
    place = place + (place >= torch.minimum(kth_at, next_at))
    place = place + (place >= torch.maximum(kth_at, next_at))
    others = members.gather(2, place)  # B m K-1
    around = _prefix(_slots(grad, others)) + _suffix(_slots(grad[:, 1:], others))  # B m K
    passed = torch.zeros(*best.shape[:2], grad.shape[2] + 1, dtype=torch.long, device=best.device)
    slot = passed.scatter_(2, others + 1, 1).cumsum(-1)[..., :-1]  # B m S
    by_candidate = grad.transpose(1, 2).contiguous()[:, None].expand(-1, best.shape[1], -1, -1)  # B m S K
    join = around.gather(2, slot).add_(by_candidate.gather(3, slot[..., None])[..., 0]).sub_(value)
    return value - without, join


def _rows(values: Tensor, index: Tensor) -> Tensor:
    """values[b, index[b, m, j]] for values B S and index B m J."""
    return values[:, None].expand(-1, index.shape[1], -1).gather(2, index)


def _slots(grad: Tensor, items: Tensor) -> Tensor:
    """G[j, items_j]: what each item contributes when the j-th of them sits in slot j."""
    size = grad.shape[2]
    return _rows(grad.flatten(1), items + size * torch.arange(items.shape[2], device=items.device))


def _prefix(values: Tensor) -> Tensor:
    """Σ_{i<j} values_i for j = 0 … J."""
    return F.pad(values.cumsum(-1), (1, 0))


def _suffix(values: Tensor) -> Tensor:
    """Σ_{i≥j} values_i for j = 0 … J."""
    return F.pad(values.flip(-1).cumsum(-1), (1, 0)).flip(-1)


def score_gradient(grad: Float[Tensor, "B K S"], past: Perturbation) -> Float[Tensor, "B U"]:
    """Correlate each draw's f with its noise; subtracting the mean of f is the leave-one-out baseline up to n/(n−1)."""
    chosen = past.draws.best[..., :-1].sort(dim=-1).values
    value = _slots(grad, chosen).sum(-1)  # B M
    num_samples = value.shape[1]
    centered = (value - value.mean(dim=1, keepdim=True)) / ((num_samples - 1) * past.sigma)
    total = torch.zeros_like(past.kept_scores)
    for chunk, z in _replay(past, num_samples):
        total += torch.einsum("bm,mbu->bu", centered[:, chunk], past.noise.score(z))
    return total


def diagonal_gradient(grad: Float[Tensor, "B K S"], past: Perturbation) -> Float[Tensor, "B U"]:
    """Each chosen candidate's own noise times its own slot's gradient; everything else is dropped."""
    chosen = past.draws.best[..., :-1].sort(dim=-1).values  # B M K
    own = _slots(grad, chosen)
    kept_chosen = _rows(past.support, chosen)
    num_samples = own.shape[1]
    total = torch.zeros_like(past.kept_scores)
    for chunk, z in _replay(past, num_samples):
        kept = kept_chosen[:, chunk]
        own_noise = past.noise.score(z).transpose(0, 1).gather(2, kept)
        total.scatter_add_(1, kept.flatten(1), (own[:, chunk] * own_noise).flatten(1))
    return total / (num_samples * past.sigma)


def _replay(past: Perturbation, num_samples: int):
    return noise_chunks(past.kept_scores, num_samples=num_samples, noise=past.noise, seed=past.seed)


GRADIENTS = {"conditional": conditional_gradient, "score": score_gradient, "diagonal": diagonal_gradient}
