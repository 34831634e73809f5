"""The exact gradient of E[ f(top-K(s + σZ)) ], Z normal and f = ⟨G, Y⟩: what estimates of it are measured against.

Let π_j = P(s_j + σZ_j > t), and p_j the density of s_j + σZ_j at t. E[f] is the integral over t of

index order   the sum over all choices S and their last member i, which stands at t, of
              p_i · Π_{j ∈ S∖i} π_j · Π_{j ∉ S} (1 − π_j) · Σ_k G[k, S_k].
              One pass over the candidates in index order adds them all up: it keeps, for each number of candidates
              chosen so far, with or without one at t, the density and the density times f.
score order   Σ_i p_i Σ_m G[K−1−m, i] · P(m of the others exceed t), the last slot for the best. The probability is a
              coefficient of Π_{j≠i} (1 − π_j + π_j x), read off by Cauchy's formula on a circle.

Both are smooth in s. There are no draws, hence no Monte-Carlo error; the relative error is below 1e-6.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.selection.draws import near_the_top
from saccade.selection.noise import NOISES
from saccade.selection.refusals import check_k

Order = Literal["index", "score"]
STEP = 0.1  # of the trapezoidal rule, in σ: half the step changes less than 1e-8
THRESHOLDS = 32  # at once: at N = 2028 and K = 10 one needs up to 1.5 MB


class Slopes(NamedTuple):
    """The derivatives of E[f] by the probability of being above t, and by the density at t."""

    above: Float[Tensor, "T N"]
    at: Float[Tensor, "T N"]


def exact_gradient(
    scores: Float[Tensor, " N"], grad: Float[Tensor, "K N"], *, sigma: float, order: Order = "index"
) -> Float[Tensor, " N"]:
    """∂E[f]/∂s in float64, f = Σ_k G[k, candidate in slot k] with the slots in the order of index or of score.

    >>> exact_gradient(torch.tensor([0.0, 0.0]), torch.tensor([[1.0, 0.0]]), sigma=0.5)  # ±φ(0) / (σ√2)
    tensor([ 0.5642, -0.5642], dtype=torch.float64)
    """
    k = len(grad)
    check_k(k + 1, len(scores))
    noise = NOISES["normal"]
    kept = near_the_top(scores[None], k, sigma=sigma, noise=noise)[0]
    s, kept_grad = scores[kept].double(), grad[:, kept].double()
    thresholds = _thresholds(s, sigma, first=k if order == "index" else 1, last=k)
    s.requires_grad_()
    total = torch.zeros_like(s)
    for t in thresholds.split(THRESHOLDS):
        z = (t[:, None] - s) / sigma
        above, at = torch.special.ndtr(-z), noise.density(z)  # T N
        slopes = SLOPES[order](above.detach(), at.detach(), kept_grad)
        total += STEP * torch.autograd.grad((above, at), s, slopes)[0]
    return torch.zeros_like(scores, dtype=s.dtype).scatter(0, kept, total)


def _thresholds(s: Float[Tensor, " N"], sigma: float, *, first: int, last: int) -> Float[Tensor, " T"]:
    """Where the values of the `first` to `last` best can lie: Chernoff's bound of anything else is e^−32."""
    reach = NOISES["normal"].single_reach * sigma
    t = torch.arange(float(s.min()) - reach, float(s.max()) + reach, STEP * sigma, dtype=s.dtype)
    mean = torch.special.ndtr((s - t[:, None]) / sigma).sum(dim=1)
    low_enough = (mean > first) | (first * (mean / first).log() + first - mean > -32)
    high_enough = (mean < last) | (last * (mean / last).log() + last - mean > -32)
    return t[low_enough & high_enough]


def _slopes_by_index(above: Float[Tensor, "T N"], at: Float[Tensor, "T N"], grad: Float[Tensor, "K N"]) -> Slopes:
    """Forward and backward through the candidates by hand: autograd would take ten times the time and memory."""
    (thresholds, n), k = above.shape, len(grad)
    pi, density, slots = above.T[..., None, None, None], at.T[..., None, None], grad.T
    # T, density or density · f, nobody or somebody at t, number chosen
    states = above.new_zeros(n + 1, thresholds, 2, 2, k + 1)
    states[0, :, 0, 0, 0] = 1
    for j in range(n):
        chosen = _choose(states[j], slots[j])
        torch.mul(states[j], 1 - pi[j], out=states[j + 1])
        states[j + 1, ..., 1:] += pi[j] * chosen
        states[j + 1, :, :, 1, 1:] += density[j] * chosen[:, :, 0]
    slopes = Slopes(torch.empty_like(above), torch.empty_like(at))
    later = torch.zeros_like(states[0])  # the derivative of E[f] by the state
    later[:, 1, 1, k] = 1
    for j in reversed(range(n)):
        chosen, later_chosen = _choose(states[j], slots[j]), later[..., 1:]
        slopes.above[:, j] = (later_chosen * chosen).sum((1, 2, 3)) - (later * states[j]).sum((1, 2, 3))
        slopes.at[:, j] = (later_chosen[:, :, 1] * chosen[:, :, 0]).sum((1, 2))
        back = pi[j] * later_chosen
        back[:, :, 0] += density[j] * later_chosen[:, :, 1]
        back[:, 0] += slots[j] * back[:, 1]
        later = (1 - pi[j]) * later
        later[..., :-1] += back
    return slopes


def _choose(state: Tensor, slots: Tensor) -> Tensor:
    """What one more chosen candidate makes of a state, before the number chosen is raised."""
    chosen = state[..., :-1].clone()
    chosen[:, 1] += slots * chosen[:, 0]
    return chosen


def _slopes_by_score(above: Float[Tensor, "T N"], at: Float[Tensor, "T N"], grad: Float[Tensor, "K N"]) -> Slopes:
    """With radius r and M points on the circle, coefficients m + M, m + 2M, … leak in by r^M, and rounding errors grow
    by r^−m: both are about 1e-12 here. M is odd, since a factor may vanish at x = −r.
    """
    k = len(grad)
    points, radius = 3 * k + 1 + k % 2, 10 ** (-4 / k)
    angle = 2 * torch.pi / points * torch.arange(points // 2 + 1, dtype=above.dtype)
    share = torch.full_like(angle, 2 / points)  # half the circle stands for the other half, which is conjugate
    share[0] /= 2
    x = torch.polar(torch.full_like(angle, radius), angle)
    slots = share[:, None] * x[:, None] ** -torch.arange(k) @ grad.flip(0).to(x.dtype)  # X N
    inputs = Slopes(above.requires_grad_(), at.requires_grad_())
    factor = 1 + above[:, None] * (x[:, None] - 1)  # T X N
    value = factor.log().sum(dim=-1).exp() * (at[:, None] / factor * slots).sum(dim=-1)
    return Slopes(*torch.autograd.grad(value.real.sum(), inputs))


SLOPES: dict[str, Callable[[Tensor, Tensor, Tensor], Slopes]] = {"index": _slopes_by_index, "score": _slopes_by_score}
