import pytest
import torch
from torch.testing import assert_close

from saccade import linear_decay, normalize_scores, score_entropy
from saccade.selection import ignore_outside


def test_normalized_scores_fill_the_unit_interval():
    scores = torch.randn(4, 30, generator=torch.Generator().manual_seed(0)) * 100
    normalized = normalize_scores(scores)
    assert_close(normalized.amin(dim=1), torch.zeros(4))
    assert_close(normalized.amax(dim=1), torch.ones(4), atol=1e-6, rtol=0)
    assert torch.equal(normalized.argsort(dim=1), scores.argsort(dim=1))


def test_equal_scores_do_not_divide_by_zero():
    assert_close(normalize_scores(torch.full((1, 3), 7.0)), torch.zeros(1, 3), atol=0, rtol=0)


def test_gradient_flows_through_minimum_and_maximum():
    scores = torch.tensor([[0.0, 1.0, 4.0]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(normalize_scores, scores)
    normalize_scores(scores)[0, 1].backward()
    span = 4 + 1e-5
    assert_close(scores.grad[0], torch.tensor([(1 - span) / span**2, 1 / span, -1 / span**2], dtype=torch.float64))


def test_decay_reaches_zero_right_after_training():
    steps = 100
    values = [linear_decay(0.05, step=step, total_steps=steps) for step in range(steps + 2)]
    assert values[0] == 0.05
    assert values[steps - 1] == pytest.approx(0.05 / steps)
    assert values[steps:] == [0.0, 0.0]


def test_decay_refuses_impossible_steps():
    with pytest.raises(ValueError, match="step -1 of 10"):
        linear_decay(0.05, step=-1, total_steps=10)


def test_candidates_outside_change_nothing_inside():
    torch.manual_seed(0)
    raw, inside = torch.randn(3, 20), torch.rand(3, 20) < 0.6
    masked_raw, scores = ignore_outside(raw, inside)
    for row in range(3):
        assert_close(scores[row, inside[row]], normalize_scores(raw[row : row + 1, inside[row]])[0])
        assert_close(
            score_entropy(masked_raw[row : row + 1]), score_entropy(raw[row : row + 1, inside[row]]), atol=1e-5, rtol=0
        )
    assert (scores[~inside] < -10).all()


def test_candidates_outside_get_no_gradient():
    raw = torch.randn(2, 10, requires_grad=True)
    inside = torch.arange(10).expand(2, 10) < 6
    torch.cat(ignore_outside(raw, inside)).square().sum().backward()
    assert (raw.grad[~inside] == 0).all()


def test_an_image_without_any_candidate_is_no_diverged_score():
    with pytest.raises(ValueError, match=r"no candidate is centered in it: leave it out, or .* preparation\.resize"):
        ignore_outside(torch.zeros(2, 3), torch.tensor([[True, True, False], [False, False, False]]))
