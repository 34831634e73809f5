"""The three gradients against exact answers, within Monte-Carlo standard deviations."""

import pytest
import torch
from oracles import NOISE, SCORES, SIGMA, expected_indicators, seeded
from torch.testing import assert_close

from saccade import perturbed_topk
from saccade.selection import draws, noise


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


@pytest.mark.parametrize(
    ("law", "above", "below", "gap"),
    [("normal", 1, 2027, 4.0), ("normal", 10_000, 10_000, 0.0), ("gumbel", 1014, 1014, 0.0)],
)
def test_a_crowd_gets_its_conditional_gradient_however_low_it_stands(law, above, below, gap):
    """Each of a crowd crosses the threshold too seldom to be drawn; together they have half of the gradient.

    `above` candidates stand gap · σ above `below` others, and f is the probability that one of them is the best. In
    common their scores get f′ = ∫ p_A(z − gap) p_B(z) dz / σ, with p_A and p_B the densities of the maxima; the crowd
    −f′.
    """
    log_density, cdf = NOISE[law]
    z = torch.linspace(-8, 60, 200_001, dtype=torch.float64)
    best = [n * log_density(x).exp() * cdf(x) ** (n - 1) for n, x in ((above, z - gap), (below, z))]
    expected = torch.trapezoid(best[0] * best[1], z) / SIGMA
    scores = torch.zeros(above + below)
    scores[:above] = gap * SIGMA
    grad = (torch.arange(above + below) < above).float()[None]
    found = gradients(scores, grad, repeats=24, sigma=SIGMA, num_samples=200, noise=law)
    assert within_monte_carlo(found[:, above:].sum(dim=1, keepdim=True), -expected)
    assert within_monte_carlo(found[:, :above].sum(dim=1, keepdim=True), expected)


def test_what_stands_too_low_to_matter_is_not_read():
    """A crowd so far below that its whole gradient is next to nothing stays out of the support."""
    scores = torch.zeros(1, 2028)
    scores[:, :2] = torch.tensor([7.5, 7.4]) * SIGMA
    found = perturbed_topk(scores, 1, sigma=SIGMA, generator=seeded(0))
    assert found.index.tolist() == [[0, 1]]


@pytest.mark.parametrize("gradient", ["conditional", "score"])
def test_gradient_with_a_pruned_candidate_is_unbiased(gradient):
    scores = torch.cat([SCORES, torch.tensor([-2.0], dtype=torch.float64)])
    assert draws.near_the_top(scores[None], 2, sigma=SIGMA, noise=noise.NOISES["normal"]).tolist() == [[0, 1, 2, 3, 4]]
    grad = torch.randn(2, 6, dtype=torch.float64, generator=seeded(0))
    leaf = scores.clone().requires_grad_()
    (expected,) = torch.autograd.grad((expected_indicators(leaf, 2, sigma=SIGMA) * grad).sum(), leaf)
    assert within_monte_carlo(gradients(scores, grad, repeats=400, sigma=SIGMA, gradient=gradient), expected)
