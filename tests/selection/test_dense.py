import torch
from oracles import expected_indicators, listing_topk, seeded
from torch.testing import assert_close

from saccade import perturbed_topk
from saccade.selection.dense import DensePerturbedTopK

SCORES = torch.tensor([0.10, 0.15, 0.02, 0.20], dtype=torch.float64)


def test_same_indicators_as_the_listing_within_monte_carlo_error():
    n = 50_000
    torch.manual_seed(0)
    ours = DensePerturbedTopK(2, num_samples=n, sigma=0.05)(SCORES[None])
    theirs, _ = listing_topk(SCORES[None], 2, sigma=0.05, noise=torch.randn(1, n, 4, dtype=torch.float64))
    deviation = (2 * theirs * (1 - theirs) / n).sqrt()
    assert ((ours - theirs).abs() <= 4.5 * deviation + 1e-9).all()


def test_but_with_the_right_gradient():
    """A gradient descent step of the listing can go uphill; compare both with the exact gradient."""
    torch.manual_seed(0)
    grad = torch.randn(2, 4, dtype=torch.float64)
    scores = SCORES.clone().requires_grad_()
    (exact,) = torch.autograd.grad((expected_indicators(scores, 2, sigma=0.05) * grad).sum(), scores)
    leaf = SCORES[None].clone().requires_grad_()
    (DensePerturbedTopK(2, num_samples=5000, sigma=0.05)(leaf)[0] * grad).sum().backward()
    _, factor = listing_topk(SCORES[None], 2, sigma=0.05, noise=torch.randn(1, 5000, 4, dtype=torch.float64))
    listing = (factor[0] * grad).sum(dim=0)
    cosine = torch.nn.functional.cosine_similarity
    assert cosine(leaf.grad[0], exact, dim=0) > 0.999
    assert cosine(listing, exact, dim=0) < 0.9


def test_slot_scores_keep_their_precision_under_autocast():
    soft = perturbed_topk(SCORES[None].float(), 2, sigma=0.05, generator=seeded(0))
    values = torch.rand(1, 4, generator=seeded(1))
    with torch.autocast("cpu", torch.bfloat16):
        got = soft.look_up(values)
    assert_close(got, (soft.dense(4) * values[:, None]).sum(dim=2))
