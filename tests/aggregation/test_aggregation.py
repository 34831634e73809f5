import math

import pytest
import torch
from torch.testing import assert_close

from saccade import Grid, hard_topk, perturbed_topk
from saccade.aggregation import Concat, GatedAttention, Max, Mean, Placed, Transformer
from saccade.aggregation.position_encoding import Positions, sine_positions

GRID = Grid(torch.arange(4) * 8, torch.arange(5) * 8, (16, 16))
SCORES = torch.rand(2, 20, generator=torch.Generator().manual_seed(0))
FEATURES = torch.randn(2, 3, 6, generator=torch.Generator().manual_seed(1))
HARD = hard_topk(SCORES, 3)


def make(kind, **options):
    context = {Concat: {"slots": 3}, Transformer: {"cells": (4, 5)}, Placed: {"cells": (4, 5)}}
    return kind(6, **context.get(kind, {}), **options)


def test_pools_are_what_they_are_called():
    assert_close(make(Mean)(FEATURES, HARD, GRID), FEATURES.sum(dim=1) / 3)
    assert_close(make(Max)(FEATURES, HARD, GRID), torch.stack([row.max(dim=0).values for row in FEATURES]))
    assert_close(make(Concat)(FEATURES, HARD, GRID), FEATURES.reshape(2, 18))
    assert make(Concat).width == 18


def transformer(**options):
    torch.manual_seed(0)
    return make(Transformer, dim=16, hidden=32, heads=4, **options).eval()


def test_positions_are_a_linear_map_of_the_indicators():
    """Encoding rows of the dense indicators, as released, and indexing the table are the same thing."""
    soft = perturbed_topk(SCORES, 3, sigma=0.2, generator=torch.Generator().manual_seed(2))
    net = transformer()
    for selection in (HARD, soft):
        positions = selection.dense(20) @ net.positions.weight
        expected = net.encoder(net.project(FEATURES + positions)).sum(dim=1)
        assert_close(net(FEATURES, selection, GRID), expected)


def test_position_matters_to_the_transformer_and_slot_order_alone_does_not():
    net = transformer()
    torch.nn.init.normal_(net.positions.weight)
    elsewhere = HARD._replace(index=(HARD.index + 1) % 20)
    assert not torch.allclose(net(FEATURES, HARD, GRID), net(FEATURES, elsewhere, GRID))
    order = torch.tensor([2, 0, 1])
    shuffled = HARD._replace(index=HARD.index[:, order])
    assert_close(net(FEATURES[:, order], shuffled, GRID), net(FEATURES, HARD, GRID), atol=1e-5, rtol=1e-5)


def test_dropout_is_off_in_evaluation():
    net = transformer(dropout=0.5)
    assert_close(net(FEATURES, HARD, GRID), net(FEATURES, HARD, GRID), atol=0, rtol=0)
    net.train()
    assert not torch.allclose(net(FEATURES, HARD, GRID), net(FEATURES, HARD, GRID))


def test_table_of_another_grid_interpolates_between_cells():
    net = transformer()
    ramp = torch.arange(5.0).expand(4, 5).reshape(20, 1).expand(20, 6)
    net.positions.weight.data.copy_(ramp)  # every position is its column
    wide = net.positions.table((4, 10)).view(4, 10, 6)
    columns = ((torch.arange(10) + 0.5) / 2 - 0.5).clamp(0, 4)  # centers of half-width cells in old columns
    assert_close(wide, columns[None, :, None].expand(4, 10, 6))


def test_positions_one_by_one_are_those_of_the_table():
    net = transformer()
    index = torch.tensor([[0, 9, 35, 69], [3, 3, 68, 10]])
    for cells in ((7, 10), (4, 5), (3, 30)):
        inside = index % (cells[0] * cells[1])
        assert_close(net.positions.rows(inside, cells), net.positions.table(cells)[inside], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_finds_the_same_positions_on_another_grid(dtype):
    """Torch's grid_sample on a CPU returns what lay in memory for a large chart in half precision."""
    torch.manual_seed(0)
    positions = Positions((39, 52), 128)
    index = torch.randint(43 * 56, (2, 10))
    expected = positions.rows(index, (43, 56)).detach()
    rows = positions.to(dtype).rows(index, (43, 56))
    assert rows.dtype == dtype
    assert_close(rows.float(), expected, atol=torch.finfo(dtype).eps * expected.abs().max().item(), rtol=0)


def test_sizes_of_the_paper():
    net = Transformer(512, cells=(30, 30))
    assert net.positions.weight.shape == (900, 512)
    assert net.width == 256
    assert len(net.encoder) == 3
    first, second = (layer.state_dict()["linear1.weight"] for layer in net.encoder[:2])
    assert not torch.equal(first, second)


def test_sines_are_those_of_the_cells_centers():
    table = sine_positions((4, 5), 12)
    for cell in range(20):
        y, x = (cell // 5 + 0.5) / 4, (cell % 5 + 0.5) / 5
        waves = [wave(math.pi * f * place) for place in (y, x) for wave in (math.sin, math.cos) for f in (1, 4, 16)]
        assert_close(table[cell], torch.tensor(waves), atol=1e-5, rtol=0)


def test_sines_of_near_cells_are_alike():
    """Of the cells of a row the next one is the most similar: order can be read off."""
    row = sine_positions((1, 32), 96)
    similar = row @ row.T
    similar.fill_diagonal_(-torch.inf)
    assert all(abs(int(best) - cell) == 1 for cell, best in enumerate(similar.argmax(dim=1)))


def test_widths_that_sines_do_not_fill_end_in_zeros():
    assert sine_positions((2, 2), 7)[:, 4:].abs().max() == 0
    assert sine_positions((2, 2), 3).abs().max() == 0


def test_a_transformer_with_norms_in_front_ends_in_one():
    """What each layer adds is then normalized together: features of any size give an answer of the same size."""
    net = transformer(pre_norm=True, encoding="sines")
    for scale in (1, 1000):
        pooled = net(scale * FEATURES, HARD, GRID)
        assert_close(pooled.var(dim=1, correction=0), torch.ones(len(pooled)), atol=1e-3, rtol=0)


def test_a_placed_slot_is_read_with_its_place_and_by_itself():
    for pool, over in (("max", lambda x: x.amax(dim=1)), ("mean", lambda x: x.mean(dim=1))):
        net = make(Placed, pool=pool)
        table = sine_positions((4, 5), 6)
        slots = torch.stack([net.think(FEATURES[:, k] + table[HARD.index[:, k]]) for k in range(3)], dim=1)
        assert_close(net(FEATURES, HARD, GRID), over(slots))


@pytest.mark.parametrize("kind", [Mean, Max, GatedAttention, Placed, Transformer])
def test_alone_is_an_image_of_one_slot(kind):
    torch.manual_seed(0)
    net = make(kind, **({"dim": 16, "hidden": 32, "heads": 4} if kind is Transformer else {})).eval()
    soft = perturbed_topk(SCORES, 3, sigma=0.2, generator=torch.Generator().manual_seed(2))
    for selection in (HARD, soft):
        alone = net.alone(FEATURES, selection, GRID)
        for k in range(3):
            slot = selection._replace(weight=selection.weight[:, k : k + 1], hard=False)
            assert_close(alone[:, k], net(FEATURES[:, k : k + 1], slot, GRID))


def test_concat_says_how_many_patches_it_was_made_for():
    with pytest.raises(ValueError, match="made for 3 patches and got 2"):
        make(Concat)(FEATURES[:, :2], HARD, GRID)
