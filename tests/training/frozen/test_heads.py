"""Heads learn what can be learnt, are blind to their part, and stay the same when folded into a model's layers."""

import pytest
import torch
from torch.testing import assert_close

from saccade.features.cells import CellAttention
from saccade.tasks.single import Single
from saccade.training.frozen.heads import BagHead, Standard, cross_fit, fit_bag, fit_glance, standardize


def test_a_glance_is_the_minimum_of_its_convex_loss():
    """Nudged in any direction the penalized loss, on standardized features, does not fall."""
    torch.manual_seed(0)
    x, label = 3 * torch.randn(60, 5) + 2, torch.randint(3, (60,))
    head = fit_glance(x, label, Single(("a", "b", "c")))
    standard = Standard.of(x)

    def loss(weight, bias):
        logits = (x - standard.mean) / standard.std @ weight.T + bias
        counts = label.bincount(minlength=3).float()
        losses = torch.nn.functional.cross_entropy(logits, label, reduction="none") / counts[label]
        return losses.sum() / 3 + 0.03 * weight.square().sum()

    weight = head.weight * standard.std
    bias = head.bias + head.weight @ standard.mean
    least = loss(weight, bias)
    for _ in range(20):
        assert loss(weight + 0.02 * torch.randn_like(weight), bias + 0.02 * torch.randn_like(bias)) > least - 1e-6


def test_folding_a_standard_into_a_layer_changes_no_answer():
    torch.manual_seed(0)
    x = 5 * torch.randn(20, 4) - 3
    standard, layer = Standard.of(x), torch.nn.Linear(4, 2)
    expected = layer((x - standard.mean) / standard.std)
    standard.fold(layer)
    assert_close(layer(x), expected, rtol=1e-4, atol=1e-5)


def test_a_head_of_a_part_never_saw_it():
    part = torch.tensor([0, 1, 1, 2, 0])
    saw = []
    fitted = cross_fit(lambda places: saw.append(places.tolist()) or torch.nn.Identity(), part)
    assert saw == [[1, 2, 3], [0, 3, 4], [0, 1, 2, 4], [0, 1, 2, 3, 4]]
    assert len(fitted.blind) == 3


@pytest.fixture
def bags():
    """Noise of two sizes, and in those of class 1 one cell that stands out, and its mirror image."""
    torch.manual_seed(0)
    made = [torch.randn(1, 2, 6, 4, 4 + number % 2).half() for number in range(80)]
    label = torch.arange(80) % 4 // 2
    for bag, one in zip(made, label, strict=True):
        bag[0, 0, 2, 1, 1] += 6 * one
    return [torch.cat([bag, bag.flip(-1)]) for bag in made], label


def test_a_bag_is_learnt_by_the_one_cell_that_counts(bags):
    cells, label = bags
    standard = Standard(torch.zeros(6), torch.ones(6))

    def loss(head, batch, places):
        answers = head(batch)
        return torch.nn.functional.cross_entropy(answers, label[places][:, None].expand(-1, answers.shape[2]))

    torch.manual_seed(0)
    groups = [[place for place in range(60) if label[place] == number] for number in (0, 1)]
    head = fit_bag(BagHead(CellAttention(6, heads=2, width=8), 2), cells, standard, loss, groups, seed=0)
    held_out = [head(standardize(cells[place : place + 1], standard)).mean(dim=2).argmax() for place in range(60, 80)]
    assert (torch.stack(held_out) == label[60:]).float().mean() >= 0.95
    scores = head.attention(cells[62][0, :1].float()).scores[0]  # class 1
    assert scores.argmax() == 1 * 4 + 1
    weight, bias = head.linear()
    both = torch.stack([head.attention(way.float()).context for way in cells[62]])
    pooled = both.mean(dim=0).amax(dim=0)
    assert_close(weight @ pooled + bias, head(cells[62][None].float())[0].mean(dim=1))
