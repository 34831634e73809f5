"""SoftSort rows: the full soft permutation, its limits, gradient, order of slots."""

import pytest
import torch
from oracles import seeded
from torch.testing import assert_close

from saccade import hard_topk, softsort_topk
from saccade.selection import SoftSortTopK


def rand(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=seeded(seed), dtype=torch.float64)


@pytest.mark.parametrize("k", [1, 3, 6])
def test_rows_are_those_of_the_soft_permutation(k):
    """Entry by entry: exp(−|s_(j) − s_i| / τ), divided by the row's sum."""
    scores, tau = rand(2, 6), 0.2
    got = softsort_topk(scores, k, temperature=tau).dense(6)
    for image, weight in zip(scores.tolist(), got, strict=True):
        ranked = sorted(image, reverse=True)
        table = torch.tensor([[-abs(ranked[j] - s) / tau for s in image] for j in range(k)], dtype=torch.float64).exp()
        assert_close(weight, table / table.sum(dim=1, keepdim=True), atol=1e-8, rtol=0)


@pytest.mark.parametrize("gap", [0.3, -0.1])
def test_two_candidates_give_the_logistic_function(gap):
    scores = torch.tensor([[gap, 0.0]])
    slot = softsort_topk(scores, 1, temperature=0.2).dense(2)[0, 0]
    higher = torch.sigmoid(torch.tensor(abs(gap) / 0.2))
    assert_close(slot, torch.stack([higher, 1 - higher] if gap > 0 else [1 - higher, higher]))


def test_cold_limit_is_the_sorted_topk_highest_first():
    scores = torch.tensor([[0.3, 0.9, 0.0, 0.6]])
    slots = softsort_topk(scores, 3, temperature=1e-4).dense(4)
    assert_close(slots, torch.eye(4)[[1, 3, 0]][None], atol=1e-6, rtol=0)


def test_warm_limit_is_the_mean_of_all():
    slots = softsort_topk(rand(2, 9), 3, temperature=1e6).dense(9)
    assert_close(slots, torch.full_like(slots, 1 / 9), atol=1e-6, rtol=0)


@pytest.mark.parametrize("temperature", [0.5, 0.01])
def test_gradient(temperature):
    scores = rand(2, 12).requires_grad_()
    assert torch.autograd.gradcheck(lambda s: softsort_topk(s, 3, temperature=temperature).dense(12), scores)


def test_what_pruning_leaves_out_is_negligible():
    scores, tau = rand(3, 400), 0.01
    kept = softsort_topk(scores, 5, temperature=tau)
    ranked = scores.sort(dim=1, descending=True).values[:, :5, None]
    everything = (-(ranked - scores[:, None]).abs() / tau).softmax(dim=2)
    assert kept.index.shape[1] < 200
    assert (kept.dense(400) - everything).abs().sum() < 1e-8
    assert_close(kept.weight.sum(dim=2), torch.ones(3, 5, dtype=torch.float64))


def test_module_is_hard_in_evaluation():
    scores = rand(2, 30).float()
    module = SoftSortTopK(4, temperature=0.1)
    assert torch.equal(module(scores).weight, softsort_topk(scores, 4, temperature=0.1).weight)
    assert torch.equal(module.eval()(scores).index, hard_topk(scores, 4).index)
    assert module(scores).hard


def test_half_precision_is_computed_in_float32():
    scores = rand(2, 30).bfloat16().requires_grad_()
    weight = softsort_topk(scores, 4).weight
    assert weight.dtype == torch.float32
    assert_close(weight, softsort_topk(scores.detach().float(), 4).weight)


def test_refusals():
    with pytest.raises(ValueError, match="temperature is 0, expected a finite number > 0"):
        softsort_topk(torch.rand(1, 5), 2, temperature=0)
