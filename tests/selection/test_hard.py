import inspect

import pytest
import torch

from saccade import Grid, exhaustive, hard_topk, random_topk
from saccade.selection import Exhaustive, RandomTopK


def test_ties_go_to_the_lower_index():
    assert hard_topk(torch.tensor([[2.0, 5.0, 5.0, 5.0, 1.0]]), 2).index.tolist() == [[1, 2]]


def test_slots_are_in_index_order_not_score_order():
    assert hard_topk(torch.tensor([[0.9, 0.1, 1.0, 0.2]]), 3).index.tolist() == [[0, 2, 3]]


def test_random_topk_is_uniform_without_replacement():
    scores = torch.zeros(20_000, 5)
    index = random_topk(scores, 2, generator=torch.Generator().manual_seed(0)).index
    assert (index.diff(dim=1) > 0).all()
    pairs = (index[:, 0] * 5 + index[:, 1]).bincount(minlength=25)
    drawn = pairs[pairs > 0]
    assert len(drawn) == 10  # all pairs of five
    assert (drawn - 2000).abs().max() < 4.5 * (20_000 * 0.1 * 0.9) ** 0.5


def test_random_topk_repeats_with_its_generator():
    scores = torch.zeros(3, 50)
    first, again = (random_topk(scores, 5, generator=torch.Generator().manual_seed(1)).index for _ in range(2))
    assert torch.equal(first, again)


def test_exhaustive_takes_everything_in_order():
    selection = exhaustive(torch.rand(2, 4))
    assert torch.equal(selection.dense(4), torch.eye(4).expand(2, 4, 4))


@pytest.mark.parametrize("select", [hard_topk, random_topk])
def test_too_many_patches_are_refused(select):
    with pytest.raises(ValueError, match="k is 9 and there are 4 candidates"):
        inspect.unwrap(select)(torch.rand(1, 4), 9)


def test_chance_never_falls_on_what_lies_outside_the_picture():
    inside = torch.tensor([[True, False, True, False]])
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        assert random_topk(torch.zeros(1, 4), 2, inside=inside, generator=generator).index.tolist() == [[0, 2]]
    grid = Grid(torch.tensor([0]), torch.arange(4), (1, 1), inside)
    assert all(RandomTopK(2)(torch.zeros(1, 4), grid).index.tolist() == [[0, 2]] for _ in range(20))


def test_no_score_is_so_low_that_chance_never_falls_on_it():
    scores = torch.full((300, 5), -150.0)
    scores[:, 0] = -100.0
    assert random_topk(scores, 1, generator=torch.Generator().manual_seed(0)).index.unique().tolist() == [0, 1, 2, 3, 4]


def test_all_candidates_of_a_padded_batch_are_refused():
    scores, grid = torch.tensor([[0.3, -150.0]]), Grid(torch.tensor([0]), torch.arange(2) * 8, (8, 8))
    with pytest.raises(ValueError, match=r"one size with .*preparation\.resize"):
        Exhaustive()(scores, grid.padded(torch.tensor([[8, 8]])))
    for whole in (None, grid, grid.padded(torch.tensor([[8, 16]]))):
        assert Exhaustive()(scores, whole).index.tolist() == [[0, 1]]
