"""Forward and gradients of the perturbed top-K against exact answers, within Monte-Carlo standard deviations."""

import inspect
import math

import pytest
import torch
from oracles import expected_indicators
from torch.distributions import Normal
from torch.testing import assert_close

from saccade import hard_topk, perturbed_topk
from saccade.selection import PerturbedTopK, draws, noise

SCORES = torch.tensor([0.10, 0.15, 0.02, 0.20, 0.12], dtype=torch.float64)
SIGMA = 0.05


def normal_tail(x: float) -> float:
    return math.erfc(x / 2**0.5) / 2


def gumbel_pair(x: float) -> float:
    return 1 / (1 + math.exp(x))


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def gradients(scores, grad, *, repeats, **options):
    """Independent gradient estimates, one per copy of the scores: repeats N."""
    copies = scores.expand(repeats, -1).clone().requires_grad_()
    selection = perturbed_topk(copies, len(grad), generator=seeded(1), **options)
    (selection.dense(scores.numel()) * grad).sum().backward()
    return copies.grad


def within_monte_carlo(estimates, expected, deviations=4.0):
    """Whether the mean of independent estimates lies within `deviations` standard errors of the truth, everywhere."""
    error = estimates.std(dim=0) / len(estimates) ** 0.5
    return ((estimates.mean(dim=0) - expected).abs() <= deviations * error + 1e-12).all()


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


def test_the_oracle_differentiates_as_finite_differences_do():
    """The expectation by quadrature, its autograd gradient, and central differences agree: the oracle is sound."""
    grad = torch.randn(2, 5, dtype=torch.float64, generator=seeded(3))
    scores = SCORES.clone().requires_grad_()
    value = (expected_indicators(scores, 2, sigma=SIGMA) * grad).sum()
    (exact,) = torch.autograd.grad(value, scores)
    step = 1e-5
    for d in range(5):
        shift = torch.zeros(5, dtype=torch.float64)
        shift[d] = step
        up, down = ((expected_indicators(SCORES + sign * shift, 2, sigma=SIGMA) * grad).sum() for sign in (1, -1))
        assert_close((up - down) / (2 * step), exact[d], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("noise", ["normal", "gumbel"])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("gradient", ["conditional", "score"])
def test_gradient_is_unbiased(k, gradient, noise):
    grad = torch.randn(k, 5, dtype=torch.float64, generator=seeded(k))
    scores = SCORES.clone().requires_grad_()
    (expected,) = torch.autograd.grad((expected_indicators(scores, k, sigma=SIGMA, noise=noise) * grad).sum(), scores)
    options = {"sigma": SIGMA, "num_samples": 500, "noise": noise, "gradient": gradient}
    assert within_monte_carlo(gradients(SCORES, grad, repeats=400, **options), expected)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_diagonal_gradient_is_biased(k):
    grad = torch.randn(k, 5, dtype=torch.float64, generator=seeded(k))
    scores = SCORES.clone().requires_grad_()
    (expected,) = torch.autograd.grad((expected_indicators(scores, k, sigma=SIGMA) * grad).sum(), scores)
    estimates = gradients(SCORES, grad, repeats=400, sigma=SIGMA, gradient="diagonal")
    assert not within_monte_carlo(estimates, expected, deviations=20)


def test_diagonal_gradient_is_the_one_of_the_listing():
    """Its expectation is Σ_k G[k, i] · E[Y[k, i] Z_i]/σ, the diagonal of the Jacobian: ∂E[Y[k, i]]/∂s_i."""
    grad = torch.randn(2, 5, dtype=torch.float64, generator=seeded(2))
    jacobian = torch.autograd.functional.jacobian(lambda s: expected_indicators(s, 2, sigma=SIGMA), SCORES)
    expected = torch.einsum("ki,kii->i", grad, jacobian)
    estimates = gradients(SCORES, grad, repeats=400, sigma=SIGMA, gradient="diagonal")
    assert within_monte_carlo(estimates, expected)


@pytest.mark.parametrize("gradient", ["conditional", "score"])
def test_gradient_sums_to_zero_and_ignores_constants_per_slot(gradient):
    """Adding a constant to all scores changes nothing, and rows of Y always sum to one."""
    grad = torch.randn(3, 5, dtype=torch.float64, generator=seeded(0))
    options = {"sigma": SIGMA, "gradient": gradient, "num_samples": 200}
    estimate = gradients(SCORES, grad, repeats=50, **options)
    shifted = gradients(SCORES, grad + torch.tensor([[5.0], [-3.0], [1.0]], dtype=torch.float64), repeats=50, **options)
    assert_close(shifted, estimate, atol=1e-9, rtol=1e-9)
    assert within_monte_carlo(estimate.sum(dim=1, keepdim=True), torch.zeros(1, dtype=torch.float64))


@pytest.mark.parametrize("gradient", ["conditional", "score"])
def test_gradient_vanishes_with_sigma(gradient):
    grad = torch.randn(2, 5, dtype=torch.float64, generator=seeded(0))
    estimate = gradients(SCORES, grad, repeats=3, sigma=1e-4, gradient=gradient)
    assert_close(estimate, torch.zeros_like(estimate), atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", ["uniform", "alike", "peaked"])
def test_conditional_gradient_varies_far_less_than_the_score_gradient(kind, monkeypatch):
    """Against the paper's equation over all N candidates; pruning alone already calms the score gradient a lot."""
    scores = {"uniform": torch.rand(2028, generator=seeded(0)), "alike": torch.full((2028,), 0.5)}
    scores["peaked"] = 0.3 * scores["uniform"]
    scores["peaked"][::100] += 0.7
    grad = torch.randn(10, 2028, generator=seeded(1))
    options = {"repeats": 8, "sigma": SIGMA, "num_samples": 100}
    conditional = gradients(scores[kind], grad, gradient="conditional", **options)
    monkeypatch.setitem(noise.NOISES, "normal", noise.NOISES["normal"]._replace(pair_reach=1e9, single_reach=1e9))
    score = gradients(scores[kind], grad, gradient="score", **options)
    assert score.var(dim=0).sum() > 500 * conditional.var(dim=0).sum()


def test_candidates_no_draw_lifted_still_get_their_conditional_gradient():
    """With few draws most candidates near the threshold are never chosen; the estimate must stay unbiased for them."""
    grad = torch.randn(2, 5, dtype=torch.float64, generator=seeded(0))
    scores = SCORES.clone().requires_grad_()
    (expected,) = torch.autograd.grad((expected_indicators(scores, 2, sigma=SIGMA) * grad).sum(), scores)
    assert within_monte_carlo(gradients(SCORES, grad, repeats=20_000, sigma=SIGMA, num_samples=2), expected)


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


@pytest.mark.parametrize("gradient", ["conditional", "score"])
def test_gradient_with_a_pruned_candidate_is_unbiased(gradient):
    scores = torch.cat([SCORES, torch.tensor([-2.0], dtype=torch.float64)])
    assert draws.near_the_top(scores[None], 2, sigma=SIGMA, noise=noise.NOISES["normal"]).tolist() == [[0, 1, 2, 3, 4]]
    grad = torch.randn(2, 6, dtype=torch.float64, generator=seeded(0))
    leaf = scores.clone().requires_grad_()
    (expected,) = torch.autograd.grad((expected_indicators(leaf, 2, sigma=SIGMA) * grad).sum(), leaf)
    assert within_monte_carlo(gradients(scores, grad, repeats=400, sigma=SIGMA, gradient=gradient), expected)


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
    peak = law.density(torch.linspace(-5, 5, 1001)).max()
    assert law.density(torch.tensor(law.density_reach)) / peak == pytest.approx(1e-3, rel=0.05)


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
