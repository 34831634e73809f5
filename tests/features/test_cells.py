"""Cells are what the network's own stages say, and attention over them is what its formula says."""

from typing import Any

import pytest
import timm
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from saccade.features import Cells
from saccade.features.cells import CellAttention, Stages, see_one_way


@pytest.mark.parametrize("to_the_end", [False, True])
def test_stages_are_those_of_the_network_side_by_side_on_the_grid_of_the_middle_one(to_the_end):
    network = {"model": "tf_efficientnet_lite0"}
    stages = Stages(3, stride=8, to_the_end=to_the_end, image_channels=None, network=network).eval()
    whole: Any = timm.create_model("tf_efficientnet_lite0", num_classes=0).eval()
    kept = stages.backbone.net.state_dict()
    whole.load_state_dict(kept | {key: value for key, value in whole.state_dict().items() if key not in kept})
    pixels = torch.rand(2, 3, 64, 96)
    with torch.no_grad():
        seen = stages(pixels)
        normalized = (pixels - stages.backbone.mean) / stages.backbone.std
        fine, middle, coarse = whole.forward_intermediates(normalized, indices=[1, 2, 3], intermediates_only=True)
        assert_close(seen.cells[:, 24:64], middle)
        assert_close(seen.cells[:, :24, 2, 3], fine[:, :, 4:6, 6:8].mean(dim=(2, 3)))
        assert_close(seen.cells[:, 64:, 5, 7], coarse[:, :, 2, 3])
        assert_close(seen.whole, whole(normalized) if to_the_end else pixels.new_zeros(2, 0))
    assert "Conv2dSame" not in {type(layer).__name__ for layer in stages.modules()}


def test_patches_of_any_size_have_a_cell_for_every_stride_begun():
    stages = Stages(3, stride=8, to_the_end=False, image_channels=None, network={"model": "resnet18"}).eval()
    assert stages(torch.rand(1, 3, 33, 50)).cells.shape == (1, stages.width, 5, 7)


def test_every_head_attends_by_itself():
    """Each head by hand, from its rows of the grouped layers."""
    torch.manual_seed(0)
    attention = CellAttention(5, heads=3, width=4).eval()
    torch.nn.init.normal_(attention.score.weight)
    cells = torch.randn(2, 5, 3, 4)
    scores, context = attention(cells)
    by_hand = []
    for head in range(3):
        wide, narrow = slice(4 * head, 4 * head + 4), slice(2 * head, 2 * head + 2)
        evidence = F.relu(F.conv2d(cells, attention.describe.weight[wide], attention.describe.bias[wide])).flatten(2)
        hidden = F.conv1d(evidence, attention.content.weight[narrow], attention.content.bias[narrow]).tanh()
        hidden = hidden * F.conv1d(evidence, attention.gate.weight[narrow], attention.gate.bias[narrow]).sigmoid()
        score = F.conv1d(hidden, attention.score.weight[head : head + 1], attention.score.bias[head : head + 1])[:, 0]
        by_hand.append(score)
        assert_close(context[:, wide], torch.einsum("bn,ben->be", score.softmax(dim=1), evidence))
    assert_close(scores, torch.stack(by_hand).mean(dim=0))


def test_at_first_all_cells_count_alike():
    attention = CellAttention(5, heads=2, width=4).eval()
    cells = torch.randn(1, 5, 3, 4)
    assert_close(attention(cells).context, F.relu(attention.describe(cells)).mean(dim=(2, 3)))


def test_in_training_one_of_both_ways_is_seen_and_lies_as_the_picture_does():
    torch.manual_seed(0)
    stages = Cells(model="resnet18", width=4).stages.eval()
    pixels, seen = torch.rand(2, 3, 32, 64), []
    plain, mirrored = stages(pixels), stages(pixels.flip(-1))
    for seed in range(8):
        torch.manual_seed(seed)
        coin = torch.rand(()) < 0.5
        torch.manual_seed(seed)
        cells, whole = see_one_way(stages, pixels)
        assert_close(cells, plain.cells if coin else mirrored.cells.flip(-1))
        assert_close(whole, (plain if coin else mirrored).whole)
        seen.append(bool(coin))
    assert set(seen) == {True, False}
    assert not torch.allclose(plain.cells, mirrored.cells.flip(-1), atol=1e-3)


def test_a_stride_that_no_stage_has_is_refused():
    with pytest.raises(ValueError, match=r"resnet18 has no stage of 64 pixels \(its stages have 2, 4, 8, 16, 32\)"):
        Cells(model="resnet18", stride=32)


def test_a_network_that_cannot_be_cut_off_is_refused_for_that():
    with pytest.raises(ValueError, match=r"densenet121 has no cells: .* no prune_intermediate_layers"):
        Cells(model="densenet121")
