"""Pruning and chunking change nothing; the reaches of the noise are what they claim."""

import math

import pytest
import torch
from oracles import SIGMA, seeded
from torch.testing import assert_close

from saccade import perturbed_topk
from saccade.selection import draws, noise


def normal_tail(x: float) -> float:
    return math.erfc(x / 2**0.5) / 2


def gumbel_pair(x: float) -> float:
    return 1 / (1 + math.exp(x))


@pytest.mark.parametrize("noise", ["normal", "gumbel"])
@pytest.mark.parametrize("gradient", ["conditional", "score", "diagonal"])
def test_chunked_equals_unchunked(gradient, noise, monkeypatch):
    scores = torch.rand(3, 300, generator=seeded(0))
    grad = torch.randn(4, 300, generator=seeded(1))

    def run(chunk_elements):
        monkeypatch.setitem(draws.CHUNK_ELEMENTS, "cpu", chunk_elements)
        leaf = scores.clone().requires_grad_()
        selection = perturbed_topk(
            leaf, 4, sigma=0.1, num_samples=100, gradient=gradient, noise=noise, generator=seeded(2)
        )
        (selection.dense(300) * grad).sum().backward()
        return selection.dense(300).detach(), leaf.grad

    (small, small_grad), (large, large_grad) = run(1), run(2**30)
    assert_close(small, large, atol=0, rtol=0)
    assert_close(small_grad, large_grad, atol=1e-5, rtol=1e-4)


def scores_of(kind: str) -> torch.Tensor:
    scores = torch.zeros(2000)
    if kind == "uniform":
        scores = torch.rand(2000, generator=seeded(0))
    elif kind == "five stand 6 σ above the rest":
        scores[:5] = 6 * SIGMA
    elif kind == "three stand 9 σ above the rest":
        scores[:3] = 9 * SIGMA
    elif kind == "a crowd of 60 stands 5 σ above the rest":
        scores[:60] = 5 * SIGMA
    return scores[None]


@pytest.mark.parametrize(
    "kind",
    [
        "uniform",
        "all alike",
        "five stand 6 σ above the rest",
        "three stand 9 σ above the rest",
        "a crowd of 60 stands 5 σ above the rest",
    ],
)
@pytest.mark.parametrize("name", ["normal", "gumbel"])
def test_pruned_equals_unpruned(kind, name):
    """Given the same noise, the K best of the kept candidates are the K best of all, in every draw."""
    scores, law = scores_of(kind), noise.NOISES[name]
    kept = draws.near_the_top(scores, 5, sigma=SIGMA, noise=law)[0]
    perturbed = scores + SIGMA * law.sample(torch.empty(5000, 2000), seeded(0))
    everywhere = perturbed.topk(5, dim=1).indices.sort(dim=1).values
    among_kept = kept[perturbed[:, kept].topk(5, dim=1).indices].sort(dim=1).values
    assert (everywhere == among_kept).all()


def test_pruning_drops_what_noise_cannot_lift():
    scores = torch.tensor([[1.0, 0.9, 0.8, 0.1, 0.0], [1.0, 0.9, 0.8, 0.7, 0.0]])
    law = noise.NOISES["normal"]
    sigma = 0.25 / law.pair_reach
    assert (
        draws.near_the_top(scores, 2, sigma=sigma, noise=law).tolist() == [[0, 1, 2, 3]] * 2
    )  # the larger count rules
    assert draws.near_the_top(scores[:1], 2, sigma=sigma, noise=law).tolist() == [[0, 1, 2]]
    crowded = torch.rand(1, 2028, generator=seeded(0))
    by_pairs_alone = (crowded >= crowded.topk(10).values[:, -1] - law.pair_reach * SIGMA).sum()
    assert draws.near_the_top(crowded, 10, sigma=SIGMA, noise=law).shape[1] < 0.85 * by_pairs_alone


@pytest.mark.parametrize(
    ("name", "pair_tail"), [("normal", lambda x: normal_tail(x / 2**0.5)), ("gumbel", gumbel_pair)]
)
def test_reaches_are_what_they_claim(name, pair_tail):
    law = noise.NOISES[name]
    draw = law.sample(torch.empty(1_000_000), seeded(0))
    assert abs((draw > law.median).float().mean() - 0.5) < 0.002
    single_tail = normal_tail if name == "normal" else lambda x: -math.expm1(-math.exp(-x))
    assert single_tail(law.single_reach) < 1.1e-9
    assert pair_tail(law.pair_reach) < 1.1e-9
    density = law.density(torch.linspace(-5, 5, 1001))
    assert density.argmax() == 500  # at 0
