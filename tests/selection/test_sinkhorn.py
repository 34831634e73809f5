"""Sinkhorn top-K: exact transport in the limit, autograd through plain iterations, marginals, symmetries, memory."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from oracles import plain_sinkhorn, seeded
from scipy.optimize import linprog
from torch import Tensor
from torch.testing import assert_close

from saccade import ModelConfig, PatchSelectionModel, hard_topk, sinkhorn_topk
from saccade.selection import SinkhornTopK
from saccade.selection.sinkhorn import _solve


def rand(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=seeded(seed), dtype=torch.float64)


def exact_plan(scores: Tensor, k: int) -> Tensor:
    """The same without entropy, as a linear program."""
    n = len(scores)
    cost = (scores[:, None] - torch.arange(k + 1, dtype=scores.dtype)) ** 2
    rows = np.kron(np.eye(n), np.ones((1, k + 1)))
    columns = np.kron(np.ones((1, n)), np.eye(k + 1))
    mass = np.concatenate([np.full(n, 1 / n), [(n - k) / n], np.full(k, 1 / n)])
    plan = linprog(cost.flatten().numpy(), A_eq=np.vstack([rows, columns]), b_eq=mass, method="highs").x
    return n * torch.from_numpy(plan).view(n, k + 1)[:, 1:].T


@pytest.mark.parametrize(("n", "k"), [(8, 3), (12, 1), (9, 8)])
def test_small_epsilon_is_exact_transport(n, k):
    scores = rand(1, n)
    assert_close(sinkhorn_topk(scores, k, epsilon=1e-5).dense(n)[0], exact_plan(scores[0], k), atol=1e-6, rtol=0)


def test_slots_are_in_ascending_score_order():
    scores = torch.tensor([[0.3, 0.9, 0.0, 0.6]])
    assert sinkhorn_topk(scores, 3).dense(4).argmax(dim=2).tolist() == [[0, 3, 1]]
    assert sinkhorn_topk(scores, 4).dense(4).argmax(dim=2).tolist() == [[2, 0, 3, 1]]


@pytest.mark.parametrize("gap", [-0.1, 0.0, 0.03])
def test_two_candidates_give_the_logistic_function(gap):
    scores = torch.tensor([[gap, 0.0]], dtype=torch.float64, requires_grad=True)
    first = sinkhorn_topk(scores, 1, epsilon=0.05, tolerance=1e-12).dense(2)[0, 0, 0]
    expected = torch.sigmoid(torch.tensor(gap / 0.05, dtype=torch.float64))
    assert_close(first, expected)
    first.backward()
    slope = expected * (1 - expected) / 0.05
    assert_close(scores.grad[0], torch.stack([slope, -slope]))


@pytest.mark.parametrize("k", [1, 3, 5])
def test_values_and_gradient_are_those_of_many_plain_iterations(k):
    scores = rand(2, 10).requires_grad_()
    upstream = torch.randn(2, k, 10, generator=seeded(1), dtype=torch.float64)
    slow = plain_sinkhorn(scores, k, epsilon=0.1, iterations=600)
    (expected,) = torch.autograd.grad((slow * upstream).sum(), scores)
    fast = sinkhorn_topk(scores, k, epsilon=0.1, tolerance=1e-12).dense(10)
    (got,) = torch.autograd.grad((fast * upstream).sum(), scores)
    assert_close(fast, slow, atol=1e-9, rtol=0)
    assert_close(got, expected, atol=1e-7, rtol=1e-7)


def test_gradient_where_every_candidate_is_chosen():
    """There the first slot plays the part of place 0, and its gradient counts."""
    scores = rand(1, 5)
    options = {"epsilon": 0.1, "tolerance": 1e-13}
    assert torch.autograd.gradcheck(lambda s: sinkhorn_topk(s, 5, **options).dense(5), scores.requires_grad_())


def test_one_candidate_is_chosen_for_certain():
    scores = torch.tensor([[0.3], [7.0]], requires_grad=True)
    weight = sinkhorn_topk(scores, 1).weight
    assert_close(weight, torch.ones(2, 1, 1))
    weight.sum().backward()
    assert_close(scores.grad, torch.zeros(2, 1))


def test_gradient_where_the_support_is_pruned():
    scores = rand(1, 20).requires_grad_()
    assert sinkhorn_topk(scores, 3, epsilon=0.02).index.shape[1] < 15
    assert torch.autograd.gradcheck(lambda s: sinkhorn_topk(s, 3, epsilon=0.02, tolerance=1e-13).dense(20), scores)


@pytest.mark.parametrize("epsilon", [0.02, 0.002])
def test_what_pruning_leaves_out_is_negligible(epsilon):
    scores = rand(4, 100)
    everything = _solve(scores, 5, epsilon, 2000, 1e-12)[..., 1:].mT
    kept = sinkhorn_topk(scores, 5, epsilon=epsilon, tolerance=1e-12)
    assert kept.index.shape[1] < 100
    assert (kept.dense(100) - everything).abs().sum() < 1e-8


SPREADS = {
    "uniform": lambda s: s,
    "peaked": lambda s: s**8,
    "three values": lambda s: (3 * s).floor() / 3,
    "all alike": lambda s: 0 * s,
    "a few stand out": lambda s: (s < 0.01) + 1e-3 * s,
    "a few stand out of a crowd": lambda s: (s < 0.01) + 1e-6 * s,
    "partly outside": lambda s: torch.where(s < 0.3, -100.0, s),
}


@pytest.mark.parametrize("epsilon", [1e-6, 1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("spread", SPREADS)
def test_it_converges_within_twenty_steps(spread, epsilon):
    scores = SPREADS[spread](rand(3, 500)).float()
    weight = sinkhorn_topk(scores, 20, epsilon=epsilon, iterations=20).weight
    assert (weight >= 0).all()
    assert_close(weight.sum(dim=2), torch.ones(3, 20), atol=2e-6, rtol=0)
    assert weight.sum(dim=1).max() <= 1 + 1e-6  # no candidate is used more than once


def test_one_step_is_not_the_answer():
    """The step count is obeyed, and the marginals do say whether a plan has converged."""
    weight = sinkhorn_topk(rand(1, 500), 20, epsilon=0.1, iterations=1).weight
    assert (weight.sum(dim=2) - 1).abs().max() > 1e-3


def test_permuting_candidates_permutes_weights_and_gradient():
    scores, order = rand(2, 30).requires_grad_(), torch.randperm(30, generator=seeded(1))
    upstream = torch.randn(2, 4, 30, generator=seeded(2), dtype=torch.float64)
    plain = sinkhorn_topk(scores, 4, epsilon=0.01).dense(30)
    mixed = sinkhorn_topk(scores[:, order], 4, epsilon=0.01).dense(30)
    assert_close(mixed, plain[..., order])
    (expected,) = torch.autograd.grad((plain * upstream).sum(), scores)
    (got,) = torch.autograd.grad((mixed * upstream[..., order]).sum(), scores)
    assert_close(got, expected)


def test_gradient_ignores_constants_and_sums_to_zero():
    """Slots sum to one, and adding a constant to all scores changes nothing."""
    scores = rand(2, 40).requires_grad_()
    upstream = torch.randn(2, 4, 40, generator=seeded(2), dtype=torch.float64)
    weight = sinkhorn_topk(scores, 4, epsilon=0.02, tolerance=1e-12).dense(40)
    (plain,) = torch.autograd.grad((weight * upstream).sum(), scores, retain_graph=True)
    (shifted,) = torch.autograd.grad((weight * (upstream + rand(1, 4, 1))).sum(), scores)
    assert plain.abs().max() > 1
    assert_close(shifted, plain, atol=1e-8, rtol=1e-8)
    assert_close(plain.sum(dim=1), torch.zeros_like(plain[:, 0]), atol=1e-8, rtol=0)


def test_a_hard_plan_has_no_gradient():
    scores = torch.linspace(0, 1, 20).repeat(2, 1).requires_grad_()
    selection = sinkhorn_topk(scores, 4, epsilon=1e-4)
    assert_close(selection.dense(20).amax(dim=1), hard_topk(scores, 4).dense(20).amax(dim=1))
    selection.weight.backward(torch.randn(selection.weight.shape, generator=seeded(0)))
    assert scores.grad.abs().max() < 1e-3  # the ridge; a soft slot has gradients of the order 1/ε = 1e4


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_every_precision_is_solved_in_double(dtype):
    scores = rand(2, 50).to(dtype).requires_grad_()
    exact = sinkhorn_topk(scores.detach().double(), 3, epsilon=1e-3).dense(50)
    selection = sinkhorn_topk(scores, 3, epsilon=1e-3)
    assert selection.weight.dtype == torch.promote_types(dtype, torch.float32)
    assert_close(selection.dense(50).double(), exact, atol=1e-6, rtol=0)
    selection.weight.sum().backward()
    assert scores.grad.dtype == dtype


def test_module_is_discrete_at_inference_if_asked():
    scores = rand(2, 30).float()
    soft = sinkhorn_topk(scores, 4, epsilon=0.05)
    for discrete in (True, False):
        module = SinkhornTopK(4, epsilon=0.05, discrete=discrete)
        assert torch.equal(module(scores).weight, soft.weight)
        expected = hard_topk(scores, 4) if discrete else soft
        assert torch.equal(module.eval()(scores).dense(30), expected.dense(30))


def test_order_of_slots_decides_about_concat():
    parts = {"num_classes": 2, "image_size": (96, 96), "view": {"scale": 0.5}, "extraction": {"patch": 16}}
    soft = {"name": "sinkhorn", "k": 2, "discrete": False}
    PatchSelectionModel.from_config(ModelConfig(**parts, selection=soft, aggregation={"name": "concat"}))
    with pytest.raises(ValueError, match="score order in training"):
        PatchSelectionModel.from_config(
            ModelConfig(**parts, selection=soft | {"discrete": True}, aggregation={"name": "concat"})
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0.0}, "epsilon is 0.0, expected a finite number > 0"),
        ({"iterations": 0}, "iterations is 0, expected at least 1"),
        ({"tolerance": 0.0}, "tolerance is 0.0, expected a number > 0"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(ValueError, match=message):
        sinkhorn_topk(torch.rand(1, 5), 2, **options)


STEP = """
import resource, torch
from saccade import sinkhorn_topk
scores = torch.zeros(1, 20_000).requires_grad_()  # all alike: nothing can be pruned
sinkhorn_topk(torch.rand(1, 30).requires_grad_(), 5).weight.sum().backward()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
selection = sinkhorn_topk(scores, 10)
selection.weight.backward(torch.randn_like(selection.weight))
assert selection.index.shape[1] == 20_000
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**10)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kilobytes on Linux only")
def test_memory_is_that_of_a_few_plans():
    """N·N doubles would be 3.2 GB; a plan is 1.8 MB."""
    run = subprocess.run([sys.executable, "-c", STEP], check=True, capture_output=True, text=True)
    assert float(run.stdout) < 60
