import math

import torch
from oracles import seeded
from torch.testing import assert_close

from saccade import Grid, ModelConfig, PatchSelectionModel, hard_topk
from saccade.aggregation import GatedAttention

GRID = Grid(torch.arange(4), torch.arange(5), (1, 1))
FEATURES = torch.randn(2, 3, 4, generator=seeded(0), dtype=torch.float64)
SELECTION = hard_topk(torch.rand(2, 20, generator=seeded(1), dtype=torch.float64), 3)


def make(hidden: int = 5) -> GatedAttention:
    torch.manual_seed(0)
    pool = GatedAttention(4, hidden=hidden).double()
    for p in pool.parameters():
        torch.nn.init.normal_(p)
    return pool


def test_against_the_equation_number_by_number():
    pool = make()
    v, u, w = (layer.weight.tolist() for layer in (pool.content, pool.gate, pool.score))
    for bag, pooled in zip(FEATURES.tolist(), pool(FEATURES, SELECTION, GRID), strict=True):
        scores = []
        for h in bag:
            dots = [[sum(x * y for x, y in zip(row, h, strict=True)) for row in matrix] for matrix in (v, u)]
            gated = [math.tanh(a) / (1 + math.exp(-b)) for a, b in zip(*dots, strict=True)]
            scores.append(sum(x * y for x, y in zip(w[0], gated, strict=True)))
        total = sum(math.exp(s) for s in scores)
        expected = [sum(math.exp(s) / total * h[d] for s, h in zip(scores, bag, strict=True)) for d in range(4)]
        assert_close(pooled, torch.tensor(expected, dtype=torch.float64))


def test_two_slots_in_closed_form():
    """Width and hidden 1, V = U = 1, w = 2: the odds of h = 1 against h = 0 are exp(2 tanh(1) sigm(1))."""
    pool = GatedAttention(1, hidden=1).double()
    for layer, value in ((pool.content, 1.0), (pool.gate, 1.0), (pool.score, 2.0)):
        torch.nn.init.constant_(layer.weight, value)
    features = torch.tensor([[[1.0], [0.0]]], dtype=torch.float64)
    odds = math.exp(2 * math.tanh(1) / (1 + math.exp(-1)))
    expected = torch.tensor([[odds / (1 + odds)]], dtype=torch.float64)
    assert_close(pool(features, hard_topk(torch.zeros(1, 2), 2), GRID), expected)


def test_without_weights_it_is_the_mean():
    pool = make()
    torch.nn.init.zeros_(pool.score.weight)
    assert_close(pool(FEATURES, SELECTION, GRID), FEATURES.mean(dim=1))


def test_the_order_of_slots_does_not_count_and_a_doubled_bag_is_the_same():
    pool = make()
    pooled = pool(FEATURES, SELECTION, GRID)
    assert_close(pool(FEATURES[:, [2, 0, 1]], SELECTION, GRID), pooled)
    assert_close(pool(FEATURES.repeat(1, 2, 1), SELECTION, GRID), pooled)


def test_gradients_are_those_of_finite_differences():
    pool = make()
    torch.autograd.gradcheck(lambda x: pool(x, SELECTION, GRID), FEATURES.clone().requires_grad_())


def test_a_model_with_all_patches():
    config = ModelConfig(
        num_classes=2,
        image_size=(64, 64),
        scorer={"name": "conv", "pool": 8},
        selection={"name": "exhaustive"},
        extraction={"patch": 24},
        aggregation={"name": "attention", "hidden": 16},
    )
    model = PatchSelectionModel.from_config(config)
    output = model(torch.rand(2, 3, 64, 64))
    assert output.features.shape[1] == output.raw_scores.shape[1]
    model.loss(output, torch.tensor([0, 1]), entropy_coefficient=0.0).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.aggregation.parameters())
