import pytest
import torch
from torch.testing import assert_close

from saccade.training.choosing import detail_topk


@pytest.mark.parametrize("own", [0, 1, 3, 5])
def test_slots_are_the_scorer_s_best_and_then_the_most_detailed_others(own):
    generator = torch.Generator().manual_seed(own)
    scores, detail = torch.rand(4, 30, generator=generator), torch.rand(4, 30, generator=generator)
    chosen = detail_topk(scores, detail, 5, own=own)
    for row in range(4):
        mine = sorted(range(30), key=lambda d: -scores[row, d])[:own]
        others = sorted(set(range(30)) - set(mine), key=lambda d: -detail[row, d])[: 5 - own]
        assert chosen.index[row].tolist() == sorted([*mine, *others])
    assert_close(chosen.weight, torch.eye(5).expand(4, 5, 5))
