"""Slow, exact answers that the fast code is compared with: float64, and meant to be obviously right."""

import math
from collections.abc import Callable
from itertools import combinations

import torch
from torch import Tensor

# Five scores close enough to compete at this noise level.
SCORES = torch.tensor([0.10, 0.15, 0.02, 0.20, 0.12], dtype=torch.float64)
SIGMA = 0.05

NORMAL = torch.distributions.Normal(torch.zeros((), dtype=torch.float64), 1.0)


def _gumbel_log_cdf(z: Tensor) -> Tensor:
    return -torch.exp(-z)


# name → (log density, cdf)
NOISE: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "normal": (NORMAL.log_prob, NORMAL.cdf),
    "gumbel": (lambda z: -z - torch.exp(-z), lambda z: torch.exp(_gumbel_log_cdf(z))),
}


def seeded(seed: int) -> torch.Generator:
    """A generator of its own for each use of randomness."""
    return torch.Generator().manual_seed(seed)


def subset_probabilities(
    scores: Tensor, k: int, *, sigma: float, noise: str = "normal"
) -> dict[tuple[int, ...], Tensor]:
    """P(S is the top-K of scores + σZ) for every subset S, by quadrature over the smallest chosen value.

    P(S) = Σ_{a∈S} ∫ p_a(t) Π_{i∈S, i≠a} (1 − F_i(t)) Π_{j∉S} F_j(t) dt; differentiable in the scores.
    """
    log_density, cdf = NOISE[noise]
    reach = 12.0 if noise == "normal" else 45.0
    low = float(scores.detach().min()) - (12.0 if noise == "normal" else 6.0) * sigma
    t = torch.linspace(low, float(scores.detach().max()) + reach * sigma, 40_001, dtype=torch.float64)
    z = (t[:, None] - scores) / sigma  # T N
    density, below = log_density(z).exp() / sigma, cdf(z)
    n = len(scores)
    out = {}
    for subset in combinations(range(n), k):
        rest = [j for j in range(n) if j not in subset]
        left_out = below[:, rest].prod(dim=1)
        total = torch.zeros((), dtype=torch.float64)
        for a in subset:
            others = [i for i in subset if i != a]
            integrand = density[:, a] * (1 - below[:, others]).prod(dim=1) * left_out
            total = total + torch.trapezoid(integrand, t)
        out[subset] = total
    return out


def expected_indicators(scores: Tensor, k: int, *, sigma: float, noise: str = "normal") -> Tensor:
    """E[Y], K N, of the index-sorted top-K of one image's scores; differentiable in the scores."""
    rows = torch.zeros(k, len(scores), dtype=torch.float64)
    for subset, probability in subset_probabilities(scores, k, sigma=sigma, noise=noise).items():
        one_hot = torch.zeros_like(rows)
        one_hot[range(k), list(subset)] = 1.0
        rows = rows + probability * one_hot
    return rows


def listing_topk(scores: Tensor, k: int, *, sigma: float, noise: Tensor) -> tuple[Tensor, Tensor]:
    """The paper's listing written out: indicators B K N and the diagonal Jacobian factor, for given noise B M N."""
    index = (scores[:, None] + sigma * noise).topk(k, dim=-1).indices.sort(dim=-1).values
    one_hot = torch.nn.functional.one_hot(index, scores.shape[1]).to(scores.dtype)  # B M K N
    factor = torch.einsum("bmkn,bmn->bkn", one_hot, noise) / noise.shape[1] / sigma
    return one_hot.mean(dim=1), factor


def plain_sinkhorn(scores: Tensor, k: int, *, epsilon: float, iterations: int) -> Tensor:
    """N · Γ[:, 1:]ᵀ of Algorithm 3 as it is written: both potentials in turn, from zero; differentiable by autograd."""
    n = scores.shape[1]
    cost = (scores[..., None] - torch.arange(k + 1, dtype=scores.dtype)) ** 2 / epsilon  # B N K+1
    nu = torch.full((k + 1,), 1 / n, dtype=scores.dtype)
    nu[0] = (n - k) / n
    row = column = torch.zeros(len(scores), 1, k + 1, dtype=scores.dtype)
    for _ in range(iterations):
        row = -math.log(n) - (column - cost).logsumexp(dim=2, keepdim=True)
        column = nu.log() - (row - cost).logsumexp(dim=1, keepdim=True)
    return n * (row + column - cost).exp()[..., 1:].mT
