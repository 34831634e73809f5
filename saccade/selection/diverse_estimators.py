"""Two unbiased estimates of the gradient of ⟨G, E[Y(s + σZ)]⟩ where Y is chosen by greedy non-maximum suppression.

G is the gradient that arrives for Y, P the picks of a draw, f(P) = ⟨G, Y⟩.

score        E[ (f(P) − f̄) Z ] / σ with a leave-one-out baseline, over the candidates that noise can reach.
conditional  picks change where two values cross. Given all noise but that of a pick d, only one crossing takes it out:
             with a candidate c, at a level τ, leaving the picks Q (`suppression` proves it). Each such pair adds

                 h · (f(P) − f(Q)) / σ  to d and takes it from c,    1/h = 1/λ((τ − s_d)/σ) + 1/λ((τ − s_c)/σ).

             Weighting by λ = φ/(1 − Φ), the density at the crossing over the chance that d is above it, gives the
             conditional gradient of d from those draws alone in which d is picked. The crossing can also be seen from
             c's side, in draws in which c is picked and d is not, where it counts λ of c. Both are unbiased; h is
             their mean with the weights that vary least. It takes K runs without a pick, not one for each candidate.
             At N = 2028, K = 10 its variance is 20 (uniform scores) to 700 (smooth peaks) times below that of `score`.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.selection.estimators import Perturbation, score_gradient
from saccade.selection.suppression import LeaveOneOut, leave_one_out, look_up, pick_apart


def conditional_gradient(grad: Float[Tensor, "B K S"], past: Perturbation, run: LeaveOneOut) -> Float[Tensor, "B U"]:
    """Across every crossing that takes out a pick flows h · (f above − f below), from the candidate below to it."""
    scores = past.kept_scores.gather(1, past.support)  # B S
    own, last = run.index[..., :-1], run.without[..., -1]  # B M K
    gone = _value(grad, run.without)  # B M K
    demoted = torch.where(run.demoted, own, last)[..., None]
    below = _value(grad, torch.cat([run.without[..., :-1], demoted], dim=-1))
    above = _value(grad, own)[..., None]
    total = torch.zeros_like(scores)
    for cross, level, change in ((run.cross, run.level, above - below), (last, run.last_level, below - gone)):
        one, other = ((level - look_up(scores, index)) / past.sigma for index in (own, cross))
        flow = change * _pair_hazard(one, other)
        total.scatter_add_(1, own.flatten(1), flow.flatten(1)).scatter_add_(1, cross.flatten(1), -flow.flatten(1))
    total /= own.shape[1] * past.sigma
    return torch.zeros_like(past.kept_scores).scatter(1, past.support, total)


def _value(grad: Float[Tensor, "B K S"], picks: Int[Tensor, "B *draws K"]) -> Tensor:
    """⟨G, Y⟩ of picks in any order, B and draws."""
    k, size = grad.shape[1:]
    entries = picks.sort(dim=-1).values + size * torch.arange(k, device=picks.device)
    return look_up(grad.flatten(1), entries).sum(dim=-1)


def _pair_hazard(one: Tensor, other: Tensor) -> Tensor:
    """h from the two (τ − s)/σ; λ(z) = √(2/π) / erfcx(z/√2), which neither tail upsets."""
    return (2 / math.pi) ** 0.5 / (torch.special.erfcx(one / 2**0.5) + torch.special.erfcx(other / 2**0.5))


class Estimate(NamedTuple):
    """A gradient, and what must be known of every draw for it."""

    run: Callable[..., Any]
    gradient: Callable[[Tensor, Perturbation, Any], Tensor]


GRADIENTS = {
    "conditional": Estimate(leave_one_out, conditional_gradient),
    "score": Estimate(pick_apart, lambda grad, past, _: score_gradient(grad, past)),
}
