"""Relaxed subset sampling: the law of the draws, the cold limit, the gradient for fixed noise."""

from itertools import permutations

import pytest
import torch
from oracles import seeded
from torch.testing import assert_close

from saccade import gumbel_topk, hard_topk
from saccade.selection import GumbelTopK
from saccade.selection.gumbel import successive_softmax


def rand(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=seeded(seed), dtype=torch.float64)


def test_cold_draws_are_without_replacement_from_the_softmax():
    """P(first i, then j) = p_i · p_j / (1 − p_i), by counting."""
    scores, sigma, draws = torch.tensor([0.3, 0.1, 0.2, 0.0]), 0.2, 40_000
    picked = gumbel_topk(scores.expand(draws, 4), 2, sigma=sigma, temperature=1e-3, generator=seeded(0)).dense(4)
    first, second = picked.argmax(dim=2).unbind(dim=1)
    p = (scores / sigma).softmax(0).tolist()
    for i, j in permutations(range(4), 2):
        expected = p[i] * p[j] / (1 - p[i])
        deviation = (expected * (1 - expected) / draws) ** 0.5
        assert abs(((first == i) & (second == j)).float().mean().item() - expected) < 4.5 * deviation


def test_one_slot_of_two_candidates_is_a_binary_concrete():
    """softmax((s/σ + g)/τ): its logit times τ, minus the gap, is logistic; compare its distribution function."""
    gap, sigma, tau, draws = 0.1, 0.2, 0.7, 40_000
    scores = torch.tensor([[gap, 0.0]], dtype=torch.float64).expand(draws, 2)
    slot = gumbel_topk(scores, 1, sigma=sigma, temperature=tau, generator=seeded(0)).dense(2)[:, 0, 0]
    for x in (0.2, 0.5, 0.9):
        below = torch.sigmoid(tau * torch.logit(torch.tensor(x)) - gap / sigma).item()
        deviation = (below * (1 - below) / draws) ** 0.5
        assert abs((slot < x).double().mean().item() - below) < 4.5 * deviation


def test_slots_follow_the_recurrence_as_written():
    keys, tau = rand(1, 6) * 3, 0.7
    alpha, rows = keys, []
    for _ in range(4):
        rows.append((alpha / tau).softmax(dim=1))
        alpha = alpha + torch.log(1 - rows[-1])
    assert_close(successive_softmax(keys, 4, temperature=tau), torch.stack(rows, dim=1))


@pytest.mark.parametrize("lead", [1.0, 30.0, 3000.0])
def test_a_candidate_far_ahead_is_drawn_once(lead):
    """log(1 − a) must not be cut off where a rounds to one."""
    keys = torch.tensor([[lead, 0.0, -1.0]], requires_grad=True)
    slots = successive_softmax(keys, 2, temperature=0.1)
    assert_close(slots[0], torch.eye(3)[:2], atol=1e-3, rtol=0)
    slots.square().sum().backward()
    assert keys.grad.isfinite().all()


def test_cold_limit_is_sorted_highest_first():
    scores = torch.tensor([[0.3, 0.9, 0.0, 0.6]])
    slots = gumbel_topk(scores, 3, sigma=1e-3, temperature=0.01).dense(4)
    assert_close(slots, torch.eye(4)[[1, 3, 0]][None], atol=1e-6, rtol=0)


def test_no_noise_is_hard_topk_with_zero_gradient():
    scores = rand(2, 20).requires_grad_()
    selection = gumbel_topk(scores, 4, sigma=0.0)
    assert torch.equal(selection.dense(20), hard_topk(scores, 4).dense(20))
    selection.weight.square().sum().backward()
    assert_close(scores.grad, torch.zeros_like(scores), atol=0, rtol=0)


@pytest.mark.parametrize("k", [1, 3, 7])
@pytest.mark.parametrize("temperature", [0.3, 1.0])
def test_gradient_for_fixed_noise(k, temperature):
    def slots(scores):
        return gumbel_topk(scores, k, sigma=0.3, temperature=temperature, generator=seeded(0)).dense(7)

    assert torch.autograd.gradcheck(slots, rand(1, 7).requires_grad_())


def test_what_pruning_leaves_out_is_negligible():
    keys, k, tau = rand(3, 400) * 100, 5, 0.5
    everything = successive_softmax(keys, k, temperature=tau)
    weight = everything.sum(dim=1)
    distance = keys.topk(k, dim=1).values[:, -1:] - keys
    bound = k * (k * torch.exp(-distance)) ** (1 / tau)
    assert (weight <= bound + 1e-12).all()

    kept = gumbel_topk(keys / 100, k, sigma=0.01, temperature=tau, generator=seeded(0))
    assert kept.index.shape[1] < 200
    assert_close(kept.weight.sum(dim=2), torch.ones(3, k, dtype=torch.float64))


def test_same_generator_same_answer():
    scores = rand(2, 50)
    first, again, other = (gumbel_topk(scores, 3, generator=seeded(s)).dense(50) for s in (7, 7, 8))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    torch.manual_seed(3)
    free = gumbel_topk(scores, 3).dense(50)
    torch.manual_seed(3)
    assert torch.equal(free, gumbel_topk(scores, 3).dense(50))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(dtype):
    scores = rand(2, 50).to(dtype).requires_grad_()
    weight = gumbel_topk(scores, 3, sigma=0.1).weight
    assert weight.dtype == torch.float32
    weight.square().sum().backward()
    assert scores.grad.isfinite().all()


def test_module_draws_in_training_and_is_hard_in_evaluation():
    scores = rand(2, 30).float()
    module = GumbelTopK(4, sigma=0.1)
    assert not torch.equal(module(scores).dense(30), module(scores).dense(30))
    assert torch.equal(module.eval()(scores).index, hard_topk(scores, 4).index)
    assert module(scores).hard


@pytest.mark.parametrize(
    ("options", "message"), [({"sigma": -1.0}, "sigma is -1.0, expected"), ({"temperature": 0.0}, "temperature is 0.0")]
)
def test_refusals(options, message):
    with pytest.raises(ValueError, match=message):
        gumbel_topk(torch.rand(1, 5), 2, **options)
