"""The perturbed top-K: its expectation, its limits, precisions, refusals."""

import inspect

import pytest
import torch
from oracles import SCORES, SIGMA, expected_indicators, seeded
from torch.distributions import Normal
from torch.testing import assert_close

from saccade import hard_topk, perturbed_topk
from saccade.extraction import Grid
from saccade.selection import DiverseTopK, PerturbedTopK


@pytest.mark.parametrize("gap", [-1.0, 0.0, 0.5])
def test_two_candidates_give_the_normal_cdf(gap):
    scores = torch.tensor([[gap, 0.0]])  # B=1 N=2
    kept = perturbed_topk(scores, 1, sigma=0.5, num_samples=200_000, generator=seeded(0))
    expected = Normal(0.0, 0.5 * 2**0.5).cdf(torch.tensor(gap))
    assert_close(kept.dense(2)[0, 0, 0], expected, atol=5e-3, rtol=0)  # > 4 Monte-Carlo s.d.


def test_gumbel_noise_with_one_slot_gives_the_softmax():
    scores = torch.tensor([[0.3, -0.2, 0.9, 0.1]])
    kept = perturbed_topk(scores, 1, sigma=0.5, num_samples=200_000, noise="gumbel", generator=seeded(0))
    assert_close(kept.dense(4)[0, 0], (scores[0] / 0.5).softmax(0), atol=5e-3, rtol=0)


@pytest.mark.parametrize("noise", ["normal", "gumbel"])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_forward_is_the_expectation(k, noise):
    expected = expected_indicators(SCORES, k, sigma=SIGMA, noise=noise)
    n = 100_000
    got = perturbed_topk(SCORES[None], k, sigma=SIGMA, num_samples=n, noise=noise, generator=seeded(0)).dense(5)[0]
    deviation = (expected * (1 - expected) / n).sqrt()
    assert ((got - expected).abs() <= 4.5 * deviation + 1e-9).all()


def test_sigma_zero_is_hard_topk_with_zero_gradient():
    scores = torch.rand(3, 20, generator=seeded(0)).requires_grad_()
    soft = perturbed_topk(scores, 4, sigma=0.0)
    assert_close(soft.dense(20), hard_topk(scores, 4).dense(20), atol=0, rtol=0)
    soft.weight.square().sum().backward()
    assert_close(scores.grad, torch.zeros(3, 20), atol=0, rtol=0)


def test_small_sigma_approaches_hard_topk():
    scores = torch.rand(3, 20, generator=seeded(0))
    soft = perturbed_topk(scores, 4, sigma=1e-7, generator=seeded(0))
    assert_close(soft.dense(20), hard_topk(scores, 4).dense(20), atol=0, rtol=0)


def test_all_candidates_is_the_identity():
    scores = torch.rand(2, 6, generator=seeded(0)).requires_grad_()
    selection = perturbed_topk(scores, 6, sigma=0.5)
    assert_close(selection.dense(6), torch.eye(6).expand(2, 6, 6), atol=0, rtol=0)
    selection.weight.sum().backward()
    assert_close(scores.grad, torch.zeros(2, 6), atol=0, rtol=0)


def test_same_generator_same_answer():
    scores = torch.rand(2, 50, generator=seeded(0))
    first, again, other = (perturbed_topk(scores, 3, sigma=0.1, generator=seeded(s)).dense(50) for s in (7, 7, 8))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_default_generator_obeys_manual_seed():
    scores = torch.rand(2, 50, generator=seeded(0))
    torch.manual_seed(3)
    first = perturbed_topk(scores, 3, sigma=0.1).dense(50)
    torch.manual_seed(3)
    assert torch.equal(first, perturbed_topk(scores, 3, sigma=0.1).dense(50))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_every_precision(dtype):
    scores = torch.rand(2, 50, generator=seeded(0)).to(dtype).requires_grad_()
    exact = perturbed_topk(scores.detach().double(), 3, sigma=0.1, num_samples=20_000, generator=seeded(1)).dense(50)
    selection = perturbed_topk(scores, 3, sigma=0.1, num_samples=20_000, generator=seeded(2))
    assert selection.weight.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert_close(selection.dense(50).double(), exact, atol=0.025, rtol=0)  # 5 s.d. of a difference at p = 1/2
    selection.weight.square().sum().backward()
    assert scores.grad.dtype == dtype
    assert scores.grad.isfinite().all()
    assert scores.grad.abs().sum() > 0


def test_autocast_changes_nothing():
    """The operator's own arithmetic stays in float32 under autocast."""
    scores = torch.rand(2, 50, generator=seeded(0))

    def run():
        leaf = scores.clone().requires_grad_()
        selection = perturbed_topk(leaf, 3, sigma=0.1, generator=seeded(1))
        selection.weight.square().sum().backward()
        return selection.weight.detach(), leaf.grad

    plain = run()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = run()
    assert_close(mixed, plain, atol=0, rtol=0)


def test_inside_a_compiled_function_it_gives_the_same_numbers():
    def step(scores):
        return perturbed_topk(2 * scores, 3, sigma=0.1).weight.square().sum()

    results = []
    for run in (step, torch.compile(step, backend="aot_eager")):
        leaf = torch.rand(2, 50, generator=seeded(0)).requires_grad_()
        torch.manual_seed(4)
        value = run(leaf)
        value.backward()
        results.append((value.detach(), leaf.grad))
    assert_close(results[1], results[0], atol=0, rtol=0)
    torch.compiler.reset()


def test_module_is_soft_in_training_and_hard_in_evaluation():
    scores = torch.rand(2, 50, generator=seeded(0))
    module = PerturbedTopK(3, sigma=0.1)
    assert module(scores).weight.unique().numel() > 2
    assert torch.equal(module.eval()(scores).dense(50), hard_topk(scores, 3).dense(50))


def test_without_discrete_the_module_is_soft_in_evaluation_too():
    scores = torch.rand(2, 50, generator=seeded(0))
    module = PerturbedTopK(3, sigma=0.1, num_samples=20_000, discrete=False).eval()
    torch.manual_seed(0)
    expected = perturbed_topk(scores, 3, sigma=0.1, num_samples=200_000, generator=seeded(1)).dense(50)
    assert_close(module(scores).dense(50), expected, atol=0.02, rtol=0)  # > 4 Monte-Carlo s.d.
    assert (module(scores).dense(50) - hard_topk(scores, 3).dense(50)).abs().max() > 0.1


@pytest.mark.parametrize(
    ("scores", "options", "message"),
    [
        (torch.rand(5), {}, "expected \\(batch, candidates\\)"),
        (torch.rand(1, 2, 5), {}, "scores.flatten"),
        (torch.arange(5)[None], {}, "expected floating point"),
        (torch.rand(1, 5), {"k": 6}, "k is 6 and there are 5 candidates"),
        (torch.rand(1, 5), {"k": 0}, "at least one patch"),
        (torch.tensor([[0.0, float("nan"), 1.0]]), {}, "NaN or infinite"),
        (torch.tensor([[0.0, 1.0], [float("inf"), 1.0]]), {"k": 1}, "first in image 1"),
        (torch.rand(1, 5), {"sigma": -0.1}, "sigma is -0.1"),
        (torch.rand(1, 5), {"sigma": float("nan")}, "expected a finite number"),
        (torch.rand(1, 5), {"num_samples": 0}, "at least 1"),
        (torch.rand(1, 5), {"num_samples": 1, "gradient": "score"}, "at least 2"),
    ],
)
def test_refusals_say_what_came_and_what_to_do(  # unwrapped: the shape checks of the tests would refuse first
    scores, options, message
):
    with pytest.raises(ValueError, match=message):
        inspect.unwrap(perturbed_topk)(scores, **{"k": 2, "sigma": 0.1, **options})


@pytest.mark.parametrize("make", [PerturbedTopK, DiverseTopK])
def test_the_gradient_per_sigma_is_sigma_times_the_gradient(make):
    grid = Grid(torch.tensor([0]), 10 * torch.arange(8), (10, 10))
    weights = torch.randn(8, generator=seeded(1))
    gradients = []
    for per_sigma in (False, True):
        scores = torch.linspace(0, 1, 8)[None].requires_grad_()
        torch.manual_seed(0)
        selection = make(2, sigma=0.2, num_samples=50, gradient_per_sigma=per_sigma)(scores, grid)
        gradients.append(torch.autograd.grad((selection.dense(8) * weights).sum(), scores)[0])
    assert gradients[0].abs().max() > 0
    assert_close(gradients[1], 0.2 * gradients[0])
