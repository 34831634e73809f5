"""Straight-through top-K: the forward of hard top-K, the gradient of the softmax it names."""

import pytest
import torch
from oracles import seeded
from torch.testing import assert_close

from saccade import hard_topk, straight_through_topk
from saccade.extraction import extract
from saccade.selection import StraightThroughTopK


def rand(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=seeded(seed), dtype=torch.float64)


@pytest.mark.parametrize("temperature", [1e-3, 0.05, 10.0])
def test_forward_is_hard_topk_to_the_last_bit(temperature):
    scores = (rand(4, 50) * 20).round() / 20  # with ties
    assert torch.equal(
        straight_through_topk(scores, 6, temperature=temperature).dense(50), hard_topk(scores, 6).dense(50)
    )


@pytest.mark.parametrize("k", [1, 3, 5])
def test_gradient_is_that_of_a_slot_between_its_own_and_the_unchosen(k):
    scores, tau = rand(6).requires_grad_(), 0.2
    upstream = torch.randn(k, 6, generator=seeded(1), dtype=torch.float64)
    best = sorted(scores.detach().topk(k).indices.tolist())
    relaxed = torch.zeros((), dtype=torch.float64)
    for slot, own in enumerate(best):
        rivals = [i for i in range(6) if i == own or i not in best]
        relaxed = relaxed + (upstream[slot, rivals] * (scores[rivals] / tau).softmax(0)).sum()
    (expected,) = torch.autograd.grad(relaxed, scores)
    weight = straight_through_topk(scores[None], k, temperature=tau).dense(6)[0]
    (got,) = torch.autograd.grad((weight * upstream).sum(), scores)
    assert expected.abs().max() > 0.1
    assert_close(got, expected, atol=1e-7, rtol=0)


def test_two_candidates_have_the_logistic_slope():
    scores = torch.tensor([[0.1, 0.0]], requires_grad=True)
    straight_through_topk(scores, 1, temperature=0.2).dense(2)[0, 0, 0].backward()
    p = torch.sigmoid(torch.tensor(0.5))
    assert_close(scores.grad[0], p * (1 - p) / 0.2 * torch.tensor([1.0, -1.0]))


def test_choosing_all_has_no_gradient():
    scores = rand(2, 5).requires_grad_()
    weight = straight_through_topk(scores, 5).weight
    weight.backward(rand(2, 5, 5))
    assert_close(scores.grad, torch.zeros_like(scores), atol=0, rtol=0)


class Counted:
    """Candidates of one pixel each that remember which were read."""

    patch = (1, 1)

    def __init__(self):
        self.read_columns: list[int] = []

    def boxes(self, index):
        raise NotImplementedError

    def read(self, image, index):
        self.read_columns += index.flatten().tolist()
        return image.flatten(2).gather(2, index[:, None].expand(-1, image.shape[1], -1)).mT[..., None, None]


def test_extraction_reads_only_the_chosen_forward_and_the_support_backward():
    scores = rand(1, 12).float().requires_grad_()
    image = rand(1, 3, 1, 12, seed=1).float()
    selection, candidates = straight_through_topk(scores, 3, temperature=0.01), Counted()
    patches = extract(image, selection, candidates)
    chosen = hard_topk(scores, 3)
    assert candidates.read_columns == chosen.index[0].tolist()
    assert_close(patches[0, ..., 0, 0], image[0, :, 0, chosen.index[0]].T)
    patches.sum().backward()
    assert candidates.read_columns[3:] == selection.index[0].tolist()
    assert 3 < selection.index.shape[1] < 12
    assert scores.grad.abs().max() > 0


def test_what_pruning_leaves_out_is_negligible():
    scores = rand(3, 300).requires_grad_()
    upstream = torch.randn(3, 4, 300, generator=seeded(1), dtype=torch.float64)
    chosen = hard_topk(scores, 4).dense(300).bool()
    elsewhere = chosen.any(dim=1, keepdim=True) & ~chosen
    relaxed = (scores[:, None] / 0.01).masked_fill(elsewhere, -torch.inf).softmax(dim=2)
    (expected,) = torch.autograd.grad((relaxed * upstream).sum(), scores)
    selection = straight_through_topk(scores, 4, temperature=0.01)
    (got,) = torch.autograd.grad((selection.dense(300) * upstream).sum(), scores)
    assert selection.index.shape[1] < 200
    assert_close(got, expected, atol=1e-6, rtol=0)  # of about 100


def test_module_is_hard_in_evaluation():
    scores = rand(2, 30).float().requires_grad_()
    module = StraightThroughTopK(4)
    training, evaluation = module(scores), module.eval()(scores)
    assert training.weight.requires_grad
    assert evaluation.hard
    assert torch.equal(training.dense(30), evaluation.dense(30))


def test_refusals():
    with pytest.raises(ValueError, match="temperature is -1, expected a finite number > 0"):
        straight_through_topk(torch.rand(1, 5), 2, temperature=-1)
