"""Top-K with suppression: exact expectations and gradients, a naive loop, and what overlap and pruning promise."""

import inspect
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import NORMAL, SCORES, SIGMA, expected_indicators, seeded
from torch.testing import assert_close

from saccade.extraction import Grid
from saccade.selection import draws, hard_topk, perturbed_topk
from saccade.selection.diverse import DiverseTopK, diverse_topk, hard_diverse_topk
from saccade.selection.noise import NOISES
from saccade.selection.suppression import make_field, near_the_top_apart, pick_apart

GRID = Grid(torch.arange(12) * 8, torch.arange(15) * 8, (24, 24))
BOXES = GRID.boxes(torch.arange(180))

# Five boxes each, for the exact answers.
CHAIN = torch.tensor([[2 * i, 0, 2 * i + 4, 4] for i in range(5)])  # each bars its neighbors: one to three lie apart
STAR = torch.tensor(
    [[0, 0, 8, 8], [0, 0, 4, 8], [4, 0, 8, 8], [20, 0, 30, 8], [22, 0, 32, 8]]
)  # 0 bars 1 and 2, not 1 2
ALL_ALIKE = torch.tensor([[i, 0, i + 20, 9] for i in range(5)])  # every one bars all others
LAYOUTS = {"chain": CHAIN, "star": STAR, "all alike": ALL_ALIKE}


def iou(one, other):
    common = 1
    for axis in (0, 1):
        common *= max(0, min(one[axis + 2], other[axis + 2]) - max(one[axis], other[axis]))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return common / (sum(areas) - common)


def greedy(order, boxes, k, max_overlap=0.25):
    """Candidates best first → picks in index order; the barred follow when nothing else is left."""
    picks, barred = [], []
    for candidate in order:
        if len(picks) == k:
            break
        bars = any(iou(boxes[candidate], boxes[pick]) > max_overlap for pick in picks)
        (barred if bars else picks).append(candidate)
    return sorted((picks + barred)[:k])


def exact_indicators(scores, k, boxes, sigma=SIGMA):
    """E[Y], K N: the picks depend on the order of the values alone; the chance of each order by nested quadrature.

    A(t) = P(first > second > … > n-th > t) obeys A_n(t) = ∫_t^∞ p_n(x) A_{n−1}(x) dx; differentiable in the scores.
    """
    low, high = float(scores.detach().min()) - 9 * sigma, float(scores.detach().max()) + 9 * sigma
    t = torch.linspace(high, low, 3001, dtype=torch.float64)
    density = NORMAL.log_prob((t[:, None] - scores) / sigma).exp() / sigma
    rows = torch.zeros(k, len(scores), dtype=torch.float64)

    def descend(order, above):
        nonlocal rows
        if len(order) == len(scores):
            one_hot = torch.zeros(k, len(scores), dtype=torch.float64)
            one_hot[range(k), greedy(order, boxes.tolist(), k)] = 1.0
            rows = rows + above[-1] * one_hot
            return
        for candidate in set(range(len(scores))) - set(order):
            flow = torch.cumulative_trapezoid(density[:, candidate] * above, -t)
            descend([*order, candidate], torch.cat([flow.new_zeros(1), flow]))

    descend([], torch.ones_like(t))
    return rows


def gradients(scores, grad, boxes, *, repeats, **options):
    """Independent estimates, one per copy of the scores: repeats N."""
    copies = scores.expand(repeats, -1).clone().requires_grad_()
    selection = diverse_topk(copies, len(grad), boxes, generator=seeded(1), **{"sigma": SIGMA, **options})
    (selection.dense(scores.numel()) * grad).sum().backward()
    return copies.grad


def within_monte_carlo(estimates, expected, deviations=4.5):
    error = estimates.std(dim=0) / len(estimates) ** 0.5
    return ((estimates.mean(dim=0) - expected).abs() <= deviations * error + 1e-6).all()


def exact_gradient(scores, grad, boxes):
    leaf = scores.clone().requires_grad_()
    return torch.autograd.grad((exact_indicators(leaf, len(grad), boxes) * grad).sum(), leaf)[0]


def test_the_oracle_agrees_with_the_one_for_plain_top_k_and_with_finite_differences():
    apart = torch.tensor([[9 * i, 0, 9 * i + 8, 8] for i in range(5)])
    assert_close(exact_indicators(SCORES, 2, apart), expected_indicators(SCORES, 2, sigma=SIGMA), atol=1e-5, rtol=0)
    grad = torch.randn(2, 5, dtype=torch.float64, generator=seeded(3))
    shift = torch.zeros(5, dtype=torch.float64)
    shift[1] = 1e-4
    up, down = ((exact_indicators(SCORES + sign * shift, 2, CHAIN) * grad).sum() for sign in (1, -1))
    assert_close((up - down) / 2e-4, exact_gradient(SCORES, grad, CHAIN)[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_forward_is_the_expectation(layout, k):
    expected, n = exact_indicators(SCORES, k, LAYOUTS[layout]), 100_000
    got = diverse_topk(
        SCORES[None], k, LAYOUTS[layout], sigma=SIGMA, num_samples=n, gradient="score", generator=seeded(0)
    ).dense(5)[0]
    deviation = (expected * (1 - expected)).clamp(min=0).div(n).sqrt()
    assert ((got - expected).abs() <= 4.5 * deviation + 1e-6).all()


@pytest.mark.parametrize("gradient", ["conditional", "score"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_gradient_is_unbiased(layout, k, gradient):
    grad = torch.randn(k, 5, dtype=torch.float64, generator=seeded(k))
    expected = exact_gradient(SCORES, grad, LAYOUTS[layout])
    estimates = gradients(SCORES, grad, LAYOUTS[layout], repeats=400, num_samples=300, gradient=gradient)
    assert within_monte_carlo(estimates, expected)


@pytest.mark.parametrize("gradient", ["conditional", "score"])
def test_gradient_with_pruned_candidates_is_unbiased(gradient):
    scores = torch.cat([SCORES, torch.tensor([-2.0], dtype=torch.float64)])
    apart = torch.tensor([[0, 0, 4, 4], [2, 0, 6, 4], [40, 0, 44, 4], [60, 0, 64, 4], [80, 0, 84, 4], [1, 0, 5, 4]])
    options = {"sigma": SIGMA, "max_overlap": 0.25, "noise": NOISES["normal"]}
    assert near_the_top_apart(scores[None], 2, apart.double(), **options).tolist() == [[0, 1, 2, 3, 4]]
    grad = torch.randn(2, 6, dtype=torch.float64, generator=seeded(0))
    expected = torch.cat([exact_gradient(SCORES, grad[:, :5], apart[:5]), torch.zeros(1, dtype=torch.float64)])
    assert within_monte_carlo(gradients(scores, grad, apart, repeats=400, gradient=gradient), expected)


@pytest.mark.parametrize("gradient", ["conditional", "score"])
def test_gradient_ignores_constants_and_vanishes_with_sigma(gradient):
    grad = torch.randn(3, 5, dtype=torch.float64, generator=seeded(0))
    options = {"repeats": 20, "gradient": gradient, "num_samples": 200}
    estimate = gradients(SCORES, grad, CHAIN, **options)
    shift = torch.tensor([[5.0], [-3.0], [1.0]], dtype=torch.float64)
    assert_close(gradients(SCORES, grad + shift, CHAIN, **options), estimate, atol=1e-9, rtol=1e-9)
    if gradient == "conditional":  # the same constant on all scores changes nothing: so here in every draw
        assert_close(estimate.sum(dim=1), torch.zeros(20, dtype=torch.float64), atol=1e-9, rtol=0)
    still = gradients(SCORES, grad, CHAIN, **options, sigma=1e-4)
    assert_close(still, torch.zeros_like(still), atol=1e-12, rtol=0)


def test_conditional_gradient_varies_far_less_than_the_score_gradient():
    scores, grad = torch.rand(180, generator=seeded(0)), torch.randn(4, 180, generator=seeded(1))
    options = {"repeats": 20, "num_samples": 100}
    conditional, score = (gradients(scores, grad, BOXES, gradient=name, **options) for name in ("conditional", "score"))
    assert score.var(dim=0).sum() > 10 * conditional.var(dim=0).sum()


@st.composite
def fields(draw):
    """Scores B N, boxes of many sizes, K and an overlap."""
    batch, n = draw(st.integers(1, 3)), draw(st.integers(1, 14))
    corner = st.tuples(st.integers(-5, 30), st.integers(-5, 12), st.integers(1, 12), st.integers(1, 12))
    boxes = [(x, y, x + w, y + h) for x, y, w, h in draw(st.lists(corner, min_size=n, max_size=n))]
    values = st.one_of(st.floats(-1, 1, width=32), st.sampled_from([0.0, 0.5]))
    scores = torch.tensor(draw(st.lists(values, min_size=batch * n, max_size=batch * n))).view(batch, n)
    return scores, torch.tensor(boxes), draw(st.integers(1, n)), draw(st.sampled_from([0.0, 0.25, 0.5, 1.0]))


@settings(deadline=None, max_examples=80)
@given(fields())
def test_hard_selection_is_that_of_a_naive_loop(field):
    scores, boxes, k, max_overlap = field
    for row, index in zip(
        scores.tolist(), hard_diverse_topk(scores, k, boxes, max_overlap=max_overlap).index, strict=True
    ):
        order = sorted(range(len(row)), key=lambda i: (-row[i], i))
        assert index.tolist() == greedy(order, boxes.tolist(), k, max_overlap)


@settings(deadline=None, max_examples=50)
@given(fields(), st.sampled_from([0.0, 1e-6, 0.05, 10.0]), st.sampled_from(["conditional", "score"]))
def test_any_selection_is_well_formed(field, sigma, gradient):
    scores, boxes, k, max_overlap = field
    leaf, n = scores.clone().requires_grad_(), scores.shape[1]
    options = {"sigma": sigma, "num_samples": 20, "max_overlap": max_overlap, "gradient": gradient}
    selection = diverse_topk(leaf, k, boxes, generator=seeded(0), **options)
    dense = selection.dense(n)
    assert (selection.index.diff(dim=1) > 0).all()
    assert_close(dense.sum(dim=2), torch.ones(len(scores), k))
    assert (dense.sum(dim=1) <= 1 + 1e-5).all()
    dense.square().sum().backward()
    assert leaf.grad.isfinite().all()


@settings(deadline=None, max_examples=50)
@given(fields(), st.integers(0, 1000))
def test_no_two_picks_of_a_draw_overlap_more_than_allowed(field, seed):
    """One draw is one choice; it may break the rule only if nothing that keeps it was left."""
    scores, boxes, k, max_overlap = field
    options = {"sigma": 0.3, "num_samples": 1, "max_overlap": max_overlap, "generator": seeded(seed)}
    chosen = diverse_topk(scores, k, boxes, **options).dense(scores.shape[1]).sum(dim=1) > 0.5  # B N
    for row in chosen:
        picks = row.nonzero().flatten().tolist()
        clear = [
            p for p in picks if all(q == p or iou(boxes[p].tolist(), boxes[q].tolist()) <= max_overlap for q in picks)
        ]
        if len(clear) < k:
            rest = set(range(len(boxes))) - set(picks)
            assert all(any(iou(boxes[r].tolist(), boxes[p].tolist()) > max_overlap for p in picks) for r in rest)


def test_draws_are_those_of_a_naive_loop_whether_pruned_or_not():
    """Looking at few candidates first, and only at those that noise can reach, changes no pick."""
    scores = torch.stack([torch.rand(180, generator=seeded(0)), torch.zeros(180)])
    scores[1, 60:66] = 1.0  # one peak, wide enough to bar all its own: the other picks come from far below
    options = {"sigma": 0.02, "max_overlap": 0.25, "noise": NOISES["normal"]}
    assert near_the_top_apart(scores[:1], 4, BOXES.float(), **options).shape[1] < 90
    kept = near_the_top_apart(scores, 4, BOXES.float(), **options)
    assert {60, 100} <= set(kept[1].tolist())
    noisy = scores + 0.02 * torch.randn(2000, 2, 180, generator=seeded(1))
    out_of_reach = torch.ones(2, 180).scatter(1, kept, 0.0)
    full, pruned = (hard_diverse_topk(v.flatten(0, 1), 4, BOXES).index for v in (noisy, noisy - 9 * out_of_reach))
    assert torch.equal(full, pruned)
    for values, picks in zip(noisy[:20].flatten(0, 1), full.tolist(), strict=False):
        assert picks == greedy(values.argsort(descending=True).tolist(), BOXES.tolist(), 4)


@pytest.mark.parametrize("gradient", ["conditional", "score"])
def test_neither_chunks_nor_the_first_look_change_the_answer(gradient, monkeypatch):
    scores, grad = torch.rand(3, 180, generator=seeded(0)), torch.randn(4, 180, generator=seeded(1))

    def run(chunk_elements, look):
        monkeypatch.setitem(draws.CHUNK_ELEMENTS, "cpu", chunk_elements)
        monkeypatch.setattr("saccade.selection.suppression.among_the_best.__kwdefaults__", {"look": look})
        leaf = scores.clone().requires_grad_()
        selection = diverse_topk(leaf, 4, BOXES, sigma=0.1, num_samples=100, gradient=gradient, generator=seeded(2))
        (selection.dense(180) * grad).sum().backward()
        return selection.dense(180).detach(), leaf.grad

    for other in (run(1, 16), run(2**30, 1)):
        for mine, whole in zip(other, run(2**30, 1000), strict=True):
            assert_close(mine, whole, atol=1e-5, rtol=1e-4)


def test_overlap_of_one_is_the_plain_perturbed_top_k():
    """The same noise, since neither prunes here; and the same numbers."""
    scores = torch.rand(2, 20, generator=seeded(0))
    plain = perturbed_topk(scores, 3, sigma=0.3, generator=seeded(1))
    diverse = diverse_topk(scores, 3, BOXES[:20], sigma=0.3, max_overlap=1.0, generator=seeded(1))
    assert_close(diverse.dense(20), plain.dense(20), atol=0, rtol=0)


def test_sigma_to_zero_is_the_hard_selection_with_zero_gradient():
    scores = torch.rand(3, 180, generator=seeded(0)).requires_grad_()
    hard = hard_diverse_topk(scores, 5, BOXES).dense(180)
    assert_close(diverse_topk(scores, 5, BOXES, sigma=1e-7, generator=seeded(0)).dense(180), hard, atol=0, rtol=0)
    soft = diverse_topk(scores, 5, BOXES, sigma=0.0)
    assert_close(soft.dense(180), hard, atol=0, rtol=0)
    soft.weight.square().sum().backward()
    assert_close(scores.grad, torch.zeros(3, 180), atol=0, rtol=0)


def test_same_generator_same_answer():
    scores = torch.rand(2, 180, generator=seeded(0))
    first, again, other = (diverse_topk(scores, 3, BOXES, sigma=0.1, generator=seeded(s)).dense(180) for s in (7, 7, 8))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_batch_is_its_images_one_by_one():
    """In distribution: each image draws noise of its own."""
    scores = torch.rand(2, 180, generator=seeded(0))
    options = {"sigma": 0.05, "num_samples": 20_000, "gradient": "score"}
    whole = diverse_topk(scores, 3, BOXES, generator=seeded(1), **options).dense(180)
    alone = [diverse_topk(row[None], 3, BOXES, generator=seeded(2), **options).dense(180) for row in scores]
    assert_close(whole, torch.cat(alone), atol=0.025, rtol=0)  # 5 s.d. of a difference at p = 1/2
    hard = [hard_diverse_topk(row[None], 3, BOXES).index for row in scores]
    assert torch.equal(hard_diverse_topk(scores, 3, BOXES).index, torch.cat(hard))


def test_what_lies_outside_the_picture_comes_after_the_barred():
    """However high it scores, however much noise there is."""
    scores, inside = torch.tensor([[0.9, 0.8, 0.7, 5.0, -5.0]]), torch.tensor([[True, True, True, False, False]])
    for sigma in (0.0, 0.01, 50.0):
        selection = diverse_topk(scores, 3, CHAIN, sigma=sigma, inside=inside)
        assert selection.dense(5).argmax(dim=2).tolist() == [[0, 1, 2]]
    for k, picks in ((3, [0, 1, 2]), (4, [0, 1, 2, 3])):
        assert hard_diverse_topk(scores, k, CHAIN, inside=inside).index.tolist() == [picks]


def test_outside_of_the_picture_there_is_no_gradient():
    scores = torch.rand(1, 180, generator=seeded(0), requires_grad=True)
    inside = torch.arange(180)[None] < 100
    selection = diverse_topk(scores, 3, BOXES, sigma=0.1, inside=inside, generator=seeded(1))
    (selection.dense(180) * torch.rand(3, 180, generator=seeded(2))).sum().backward()
    assert (scores.grad[~inside] == 0).all()
    assert (scores.grad[inside] != 0).any()


def test_scores_may_be_any_numbers():
    """No value means padding: what is chosen is the same wherever the scores lie."""
    apart = torch.tensor([[0, 0, 4, 4], [10, 0, 14, 4], [20, 0, 24, 4]])
    assert hard_diverse_topk(torch.tensor([[-100.0, -300.0, -400.0]]), 1, apart).index.tolist() == [[0]]
    scores = torch.rand(2, 180, generator=seeded(0), dtype=torch.float64)
    scores = scores - scores.amax(dim=1, keepdim=True)
    here, there = (
        diverse_topk(scores - shift, 3, BOXES, sigma=0.1, generator=seeded(1)).dense(180) for shift in (0.0, 100.0)
    )
    assert_close(here, there)


def test_values_of_picks_fall_and_the_barred_come_last():
    values = torch.rand(50, 180, generator=seeded(0)).sort(dim=1, descending=True).values
    places = torch.rand(50, 180, generator=seeded(1)).argsort(dim=1)
    picks = pick_apart(values, make_field(BOXES[places].float()), passes=30, max_overlap=0.0)
    assert not picks.free.all(), "30 patches without a common pixel do not fit: the fallback must show"
    for row, free in zip(picks.value.tolist(), picks.free.tolist(), strict=True):
        assert free == sorted(free, reverse=True)
        assert all(a > b for (a, b), (one, other) in zip(pairwise(row), pairwise(free), strict=True) if one == other)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_module_in_training_and_in_evaluation(dtype):
    scores = torch.rand(2, 180, generator=seeded(0))
    scores[:, 50:53] += 0.5  # side by side
    scores = scores.to(dtype).requires_grad_()
    module = DiverseTopK(3, sigma=0.1, num_samples=50)
    selection = module(scores, GRID)
    assert selection.weight.unique().numel() > 2
    selection.weight.square().sum().backward()
    assert scores.grad.dtype == dtype
    assert scores.grad.abs().sum() > 0
    assert torch.equal(module.eval()(scores, GRID).index, hard_diverse_topk(scores, 3, BOXES).index)
    assert hard_topk(scores, 3).index.tolist() == [[50, 51, 52]] * 2 != module(scores, GRID).index.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"boxes": BOXES[:7]}, r"boxes have shape \(7, 4\), expected \(180, 4\)"),
        ({"max_overlap": 1.5}, "max_overlap is 1.5"),
        ({"sigma": -0.1}, "sigma is -0.1"),
        ({"k": 181}, "k is 181"),
        ({"gradient": "diagonal"}, "one of conditional, score"),
        ({"gradient": "score", "num_samples": 1}, "at least 2"),
    ],
)
def test_refusals_say_what_came_and_what_to_do(options, message):
    with pytest.raises(ValueError, match=message):
        inspect.unwrap(diverse_topk)(torch.rand(1, 180), **{"k": 2, "boxes": BOXES, "sigma": 0.1, **options})


def test_without_a_grid_it_says_so():
    with pytest.raises(ValueError, match="pass a Grid"):
        DiverseTopK(3)(torch.rand(1, 180))
