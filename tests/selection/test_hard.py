import inspect

import pytest
import torch

from saccade import exhaustive, hard_topk, random_topk
from saccade.selection import Exhaustive
from saccade.selection.normalise import OUT_OF_REACH


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
    scores = torch.tensor([[0.3, -OUT_OF_REACH, 0.1, -OUT_OF_REACH]])
    for seed in range(20):
        assert random_topk(scores, 2, generator=torch.Generator().manual_seed(seed)).index.tolist() == [[0, 2]]


def test_all_candidates_of_a_padded_batch_are_refused():
    with pytest.raises(ValueError, match=r"one size with data\.resize"):
        Exhaustive()(torch.tensor([[0.3, -OUT_OF_REACH]]))
