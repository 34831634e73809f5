"""The proposal net against its layers applied one by one."""

import pytest
import torch
import torch.nn.functional as F
from oracles import seeded
from torch.testing import assert_close

from saccade.extraction.anchors import make_anchors
from saccade.scorer.proposals import ProposalScorer


@pytest.mark.parametrize("squeeze", [0, 4])
def test_scores_are_those_of_the_layers_in_the_released_order(squeeze):
    torch.manual_seed(0)
    net = ProposalScorer(5, hidden=8, squeeze_excitation=squeeze)
    features = torch.randn(2, 5, 7, 9, generator=seeded(1))
    state = dict(net.named_parameters())
    maps, x = [], features
    for level, stride in enumerate((1, 2, 2)):
        x = F.relu(F.conv2d(x, state[f"down.{level}.weight"], state[f"down.{level}.bias"], stride, padding=1))
        maps.append(x)
    assert [tuple(chart.shape[2:]) for chart in maps] == [(7, 9), (4, 5), (2, 3)]
    gate = torch.ones(2, 8)
    if squeeze:
        positions = 7 * 9 + 4 * 5 + 2 * 3
        mean = torch.stack([chart.sum(dim=(2, 3)) for chart in maps]).sum(dim=0) / positions
        inner = F.relu(mean @ state["excitation.0.weight"].T)
        gate = torch.sigmoid(inner @ state["excitation.2.weight"].T)
    got, start = net(features), 0
    for level, (types, chart) in enumerate(zip((6, 6, 9), maps, strict=True)):
        weight, bias = state[f"heads.{level}.weight"][:, :, 0, 0], state[f"heads.{level}.bias"]
        for kind in range(types):
            for row in range(chart.shape[2]):
                for col in range(chart.shape[3]):
                    expected = (chart[:, :, row, col] * gate) @ weight[kind] + bias[kind]
                    assert_close(got[:, start], expected)
                    start += 1
    assert start == got.shape[1]


def test_squeeze_excitation_has_the_parameters_of_the_paper():
    """Linear 128 → 32 → 128 without bias, and nothing else more."""
    count = [sum(p.numel() for p in ProposalScorer(2048, squeeze_excitation=s).parameters()) for s in (0, 32)]
    assert count[1] - count[0] == 2 * 128 * 32


@pytest.mark.parametrize("size", [(448, 448), (224, 224), (250, 330)])
def test_there_is_a_score_for_every_anchor(size):
    height, width = (-(-side // 32) for side in size)
    scores = ProposalScorer(4, hidden=8)(torch.rand(1, 4, height, width))
    assert scores.shape[1] == make_anchors(size).num_candidates


def test_with_squeeze_excitation_every_anchor_knows_the_whole_map():
    torch.manual_seed(0)
    features = torch.rand(1, 4, 14, 14, requires_grad=True)
    reach = {}
    for squeeze in (0, 4):
        score = ProposalScorer(4, hidden=8, squeeze_excitation=squeeze)(features)[0, 0]  # upper left corner
        (grad,) = torch.autograd.grad(score, features)
        reach[squeeze] = bool((grad[0, :, -1, -1] != 0).any())
    assert reach == {0: False, 4: True}


def test_scores_stay_apart_under_autocast():
    torch.manual_seed(0)
    net, features = ProposalScorer(4, squeeze_excitation=8), torch.rand(1, 4, 14, 14)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = net(features)
    assert scores.dtype == torch.float32
    assert len(scores.unique()) > 1500  # bfloat16 scores would share some 300 values
