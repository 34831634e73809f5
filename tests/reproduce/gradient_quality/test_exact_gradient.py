"""The exact gradient against closed forms, brute force over all choices, and the library's own estimates."""

import math

import pytest
import torch
from oracles import expected_indicators, seeded
from torch.testing import assert_close

from saccade import perturbed_topk
from saccade.reproduce.gradient_quality.exact_gradient import exact_gradient


def random_problem(n: int, k: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = seeded(seed)
    scores = torch.rand(n, generator=generator, dtype=torch.float64)
    return scores, torch.randn(k, n, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("gap", [-1.0, 0.0, 0.5])
@pytest.mark.parametrize("order", ["index", "score"])
def test_two_candidates_give_the_normal_density(gap, order):
    grad = exact_gradient(torch.tensor([gap, 0.0]), torch.tensor([[2.0, -1.0]]), sigma=0.5, order=order)
    density = 3 * math.exp(-(gap**2) / (4 * 0.25)) / (0.5 * math.sqrt(4 * math.pi))
    assert_close(grad, torch.tensor([density, -density], dtype=torch.float64), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("n", "k"), [(4, 1), (6, 3), (5, 4)])
def test_index_order_is_the_sum_over_all_choices(n, k):
    scores, grad = random_problem(n, k)
    scores.requires_grad_()
    (brute,) = torch.autograd.grad(expected_indicators(scores, k, sigma=0.3), scores, grad)
    assert_close(exact_gradient(scores.detach(), grad, sigma=0.3), brute, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("n", "k", "sigma"), [(8, 1, 0.2), (40, 3, 0.05), (60, 9, 0.4)])
def test_both_orders_agree_where_slots_are_alike(n, k, sigma):
    scores, grad = random_problem(n, k)
    alike = grad[:1].expand(k, n)
    by_index, by_score = (exact_gradient(scores, alike, sigma=sigma, order=order) for order in ("index", "score"))
    assert_close(by_index, by_score, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("order", ["index", "score"])
def test_what_no_gradient_of_a_topk_can_see(order):
    scores, grad = random_problem(30, 4)
    truth = exact_gradient(scores, grad, sigma=0.1, order=order)
    shifted = exact_gradient(scores, grad + torch.tensor([[5.0], [-3.0], [0.0], [1.0]]), sigma=0.1, order=order)
    assert_close(truth, shifted, rtol=0, atol=1e-5)
    assert abs(truth.sum()) < 1e-5 * truth.norm()


def test_score_order_by_simulation():
    scores, grad = random_problem(12, 3)
    sigma, draws = 0.2, 400_000
    z = torch.randn(draws, 12, generator=seeded(1), dtype=torch.float64)
    slots = (scores + sigma * z).topk(3, dim=1).indices.flip(1)  # the last slot for the best
    value = grad.T[slots, torch.arange(3)].sum(dim=1)
    each = (value - value.mean())[:, None] * z / sigma
    error = each.std(dim=0) / math.sqrt(draws)
    off = (each.mean(dim=0) - exact_gradient(scores, grad, sigma=sigma, order="score")) / error
    assert off.abs().max() < 4.5


def test_the_conditional_gradient_converges_to_it():
    scores, grad = random_problem(200, 10)
    rows = scores.expand(16, -1).clone().requires_grad_()
    selection = perturbed_topk(rows, 10, sigma=0.05, num_samples=2000, generator=seeded(1))
    (estimates,) = torch.autograd.grad(selection.dense(200), rows, grad.expand(16, -1, -1))
    truth = exact_gradient(scores, grad, sigma=0.05)
    error = (estimates.var(dim=0).sum() / 16).sqrt()
    assert (estimates.mean(dim=0) - truth).norm() < 2 * error
    assert error < 0.05 * truth.norm()


def test_too_few_candidates_are_refused():
    with pytest.raises(ValueError, match="k is 4"):
        exact_gradient(torch.zeros(3), torch.zeros(3, 3), sigma=0.1)
