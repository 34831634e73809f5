"""Attention sampling against the expectation over all candidates: ordered draws are enumerated exactly in float64."""

from itertools import permutations, product

import pytest
import torch
from oracles import seeded
from torch import Tensor
from torch.testing import assert_close

from saccade import Grid, ModelConfig, PatchSelectionModel, attention_sampling
from saccade.aggregation import Mean
from saccade.selection import AttentionSampling, attention_topk
from saccade.selection.attention_sampling import _independent_share, _ordered_share, smooth_attention

SCORES = torch.tensor([0.3, -0.5, 1.0, 0.1, -0.2], dtype=torch.float64)
FEATURES = torch.tensor([0.7, -1.2, 0.4, 2.0, -0.3], dtype=torch.float64)
# A scorer that is right already: the better the feature, the higher its score.
RIGHT_SCORES = torch.tensor([2.0, 1.0, 0.0, -1.0, -2.0], dtype=torch.float64)
RIGHT_FEATURES = torch.tensor([1.4, 1.3, 1.2, 1.1, 1.0], dtype=torch.float64)
N = 5


def attend(scores: Tensor) -> Tensor:
    return smooth_attention(scores[None], smoothing=0.05)[0]


def exact(scores: Tensor = SCORES, features: Tensor = FEATURES) -> tuple[Tensor, Tensor, Tensor]:
    """Σ a f over all candidates and its gradients to scores and features."""
    scores, features = scores.clone().requires_grad_(), features.clone().requires_grad_()
    value = attend(scores) @ features
    to_scores, to_features = torch.autograd.grad(value, (scores, features))
    return value.detach(), to_scores, to_features


def draws(scores: Tensor, k: int, *, replacement: bool) -> list[tuple[list[int], Tensor]]:
    """Every ordered draw of K and its probability."""
    a = attend(scores)
    out = []
    for order in product(range(N), repeat=k) if replacement else permutations(range(N), k):
        probability, left = torch.ones((), dtype=torch.float64), 1.0
        for i in order:
            probability = probability * a[i] / left
            left -= 0.0 if replacement else a[i]
        out.append((list(order), probability))
    return out


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_value_and_both_gradients_are_unbiased(k, replacement):
    share_of = _independent_share if replacement else _ordered_share
    total = [torch.zeros((), dtype=torch.float64), torch.zeros_like(SCORES), torch.zeros_like(FEATURES)]
    for order, probability in draws(SCORES, k, replacement=replacement):
        scores, features = SCORES.clone().requires_grad_(), FEATURES.clone().requires_grad_()
        share = share_of(attend(scores)[None], torch.tensor([order]))[0]
        assert_close(share.sum(), torch.ones((), dtype=torch.float64))
        estimate = share @ features[order]
        for place, part in enumerate((estimate, *torch.autograd.grad(estimate, (scores, features)))):
            total[place] += probability * part.detach()
    for mean, truth in zip(total, exact(), strict=True):
        assert_close(mean, truth, atol=1e-12, rtol=0)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_each_draw_has_the_published_value_and_gradients_but_one(k):
    """F̂ and ∂F̂/∂f draw by draw, and ∂F̂/∂a with replacement; ∂F̂/∂a without it is the subject of the next test."""
    for replacement in (False, True):
        share_of = _independent_share if replacement else _ordered_share
        for order, _ in draws(SCORES, k, replacement=replacement):
            a, f = attend(SCORES)[order], FEATURES[order].clone().requires_grad_()
            p = 1 - (a.cumsum(0) - a)
            estimates = f if replacement else (a * f).cumsum(0) - a * f + p * f
            to_features = torch.ones(k) if replacement else p + torch.arange(k - 1, -1, -1) * a
            attention = attend(SCORES).requires_grad_()
            value = share_of(attention[None], torch.tensor([order]))[0] @ f
            to_attention, found = torch.autograd.grad(value, (attention, f))
            assert_close(value, estimates.mean())
            assert_close(found, (to_features / k).to(a))
            if replacement:  # g f / (K a) for each time it is drawn
                expected = torch.zeros(N, dtype=torch.float64)
                expected.index_add_(0, torch.tensor(order), f.detach() / (k * a))
                assert_close(to_attention, expected)


def test_two_of_three_drawn_in_numbers():
    """a = 0.6, 0.3, 0.1; the second and then the first are drawn: p = 1 and 0.7.

    share = 1/2 [0.3 + 1] and 1/2 [0.7]; slopes 1/2 [1 + 1/0.3] and 1/2 [0.7/0.6].
    """
    attention = torch.tensor([[0.6, 0.3, 0.1]], dtype=torch.float64, requires_grad=True)
    share = _ordered_share(attention, torch.tensor([[1, 0]]))
    assert_close(share, torch.tensor([[0.65, 0.35]], dtype=torch.float64))
    (slope,) = torch.autograd.grad((share * torch.tensor([[3.0, 6.0]])).sum(), attention)  # features 6 and 3
    assert_close(slope, torch.tensor([[6 * 0.7 / 1.2, 3 * (1 + 1 / 0.3) / 2, 0.0]], dtype=torch.float64))


def released_gradient(order: list[int], scores: Tensor, features: Tensor) -> Tensor:
    """What the code released with ATS has for ∂F̂/∂a of the drawn ones, brought to the scores."""
    scores = scores.clone().requires_grad_()
    attention = attend(scores)
    a, f = attention.detach()[order], features[order]
    p = 1 - (a.cumsum(0) - a)
    estimates = (a * f).cumsum(0) - a * f + p * f
    to_drawn = (estimates * p / a + (f.cumsum(0) - f) - torch.arange(len(order)) * f) / len(order)
    return torch.autograd.grad(attention[order] @ to_drawn, scores)[0]


@pytest.mark.parametrize(
    ("scores", "features", "k", "error", "cosine"),
    [
        (SCORES, FEATURES, 1, 0.0, 1.0),
        (SCORES, FEATURES, 2, 0.303, 1.0),
        (SCORES, FEATURES, 3, 0.598, 0.996),
        (RIGHT_SCORES, RIGHT_FEATURES, 1, 0.0, 1.0),
        (RIGHT_SCORES, RIGHT_FEATURES, 2, 2.666, -0.944),
        (RIGHT_SCORES, RIGHT_FEATURES, 3, 3.436, -0.991),
    ],
)
def test_the_released_gradient_is_biased_by_what_the_file_says(scores, features, k, error, cosine):
    truth = exact(scores, features)[1]
    parts = [p * released_gradient(order, scores, features) for order, p in draws(scores, k, replacement=False)]
    released = torch.stack(parts).sum(dim=0)
    assert abs(float((released - truth).norm() / truth.norm()) - error) < 1e-3
    assert abs(float(torch.cosine_similarity(released, truth, dim=0)) - cosine) < 1e-3


@pytest.mark.parametrize("replacement", [False, True])
def test_what_is_drawn_and_pooled_has_the_expectation_of_all(replacement):
    """The public path, with real draws: value and gradient within Monte-Carlo error."""
    scores = SCORES.expand(40_000, N).clone().requires_grad_()
    selection = attention_sampling(scores, 2, replacement=replacement, smoothing=0.05, generator=seeded(0))
    assert (selection.index.diff(dim=1) >= (0 if replacement else 1)).all()
    pooled = Mean(1)(FEATURES[selection.index][..., None], selection, Grid(torch.arange(5), torch.arange(1), (1, 1)))
    (gradient,) = torch.autograd.grad(pooled.sum(), scores)
    value, to_scores, _ = exact()
    for sample, truth in ((pooled.detach()[:, 0], value), (gradient, to_scores)):
        deviation = sample.std(dim=0) / len(sample) ** 0.5
        assert ((sample.mean(dim=0) - truth).abs() < 4.5 * deviation).all()
        assert (deviation < 0.02).all()


def test_draws_without_replacement_follow_the_attention():
    """First drawn with a_i; a pair {i, j} with a_i a_j (1/(1−a_i) + 1/(1−a_j))."""
    index = attention_sampling(SCORES.expand(60_000, N), 2, smoothing=0.05, generator=seeded(1)).index
    a = attend(SCORES)
    for i, j in permutations(range(N), 2):
        if i < j:
            expected = float(a[i] * a[j] * (1 / (1 - a[i]) + 1 / (1 - a[j])))
            found = float(((index[:, 0] == i) & (index[:, 1] == j)).float().mean())
            assert abs(found - expected) < 4.5 * (expected * (1 - expected) / 60_000) ** 0.5


def test_shares_follow_their_candidates_into_index_order():
    """Drawn or taken 2, 0: slot 0 holds candidate 0 with the share of the second drawn."""
    a = attend(SCORES)
    second = ((1 - a[2]) / 2).to(torch.float64)
    selection = attention_topk(SCORES[None], 2, smoothing=0.05)
    assert selection.index.tolist() == [[0, 2]]
    assert_close(selection.share, torch.stack([second, 1 - second])[None])


def test_a_certain_scorer_gives_finite_shares_and_gradients():
    for smoothing in (1e-4, 0.0):
        scores = torch.tensor([[400.0, 0.0, -400.0, 0.0]], requires_grad=True)
        share = attention_sampling(scores, 3, smoothing=smoothing, generator=seeded(3)).share
        assert share is not None
        (gradient,) = torch.autograd.grad((share * torch.tensor([1.0, 2.0, 3.0])).sum(), scores)
        assert torch.isfinite(share).all()
        assert torch.isfinite(gradient).all()
        assert_close(share.sum(), torch.tensor(1.0))


def test_training_draws_and_evaluation_repeats():
    sampler, scores = AttentionSampling(2), SCORES[None]
    torch.manual_seed(0)
    assert len({tuple(sampler(scores).index[0].tolist()) for _ in range(30)}) > 1
    sampler.eval()
    assert len({tuple(sampler(scores).share[0].tolist()) for _ in range(5)}) == 1
    assert sampler(scores).index.tolist() == [[0, 2]]
    assert_close(sampler.normalize(scores).softmax(dim=1), scores.softmax(dim=1))  # as sharp as it came


def test_a_model_learns_where_to_look_and_refuses_other_aggregations():
    options = {
        "num_classes": 2,
        "image_size": (64, 64),
        "view": {"scale": 0.25},
        "scorer": {"name": "conv", "widths": [4], "pool": 2},
        "selection": {"name": "ats", "k": 3},
        "extraction": {"patch": 20},
        "features": {"name": "ats", "width": 8, "l2_normalize": True},
    }
    model = PatchSelectionModel.from_config(ModelConfig(**options))
    output = model(torch.rand(2, 3, 64, 64))
    model.loss(output, torch.tensor([0, 1]), entropy_coefficient=0.0).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.scorer.parameters())
    with pytest.raises(ValueError, match=r"ats does not go with the aggregation transformer: its samples estimate"):
        PatchSelectionModel.from_config(ModelConfig(**options, aggregation={"name": "transformer"}))


def test_bad_options_are_refused():
    with pytest.raises(ValueError, match=r"smoothing is 2, expected a share"):
        AttentionSampling(2, smoothing=2)
    with pytest.raises(ValueError, match="k is 9 and there are 5 candidates"):
        attention_sampling(SCORES[None], 9)


def test_what_is_outside_is_drawn_only_where_the_inside_does_not_suffice():
    """Smoothing gives the uniform rest of the attention to candidates inside alone."""
    scores, inside = torch.zeros(500, 8), torch.arange(8) < 3
    scores[:, 1], inside = 30.0, inside.expand(500, 8)  # so sure that only smoothing tells the others apart
    attention = smooth_attention(scores, smoothing=0.1, inside=inside)
    assert_close(attention[0], torch.tensor([1 / 30, 0.9 + 1 / 30, 1 / 30, 0, 0, 0, 0, 0]))
    for choose in (attention_sampling, attention_topk):
        assert choose(scores, 3, inside=inside).index.amax() == 2
        chosen = choose(scores, 4, inside=inside)
        assert ((chosen.index < 3).sum(dim=1) == 3).all()
        assert chosen.share.isfinite().all()


def test_the_module_knows_padding_from_the_grid_and_from_no_score():
    scores = torch.tensor([[-150.0, -151.0, -100.0]])
    grid = Grid(torch.tensor([0]), torch.arange(3), (1, 1))
    select = AttentionSampling(1).eval()
    assert_close(select(scores, grid), attention_topk(scores, 1))
    assert select(scores, grid.padded(torch.tensor([[1, 2]]))).index.tolist() == [[0]]
