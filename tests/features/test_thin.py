from typing import Any

import pytest
import torch
from torch.testing import assert_close

from saccade.features import ATSNet, ThinResNet


def test_parameters_of_the_released_net():
    assert sum(p.numel() for p in ATSNet().parameters()) == 59_680


def test_l2_normalization_only_changes_the_length():
    torch.manual_seed(0)
    plain, unit = ATSNet().eval(), ATSNet(l2_normalize=True).eval()
    unit.load_state_dict(plain.state_dict())
    patches = torch.rand(4, 3, 50, 50)
    assert_close(unit(patches).norm(dim=1), torch.ones(4))
    assert_close(unit(patches), plain(patches) / plain(patches).norm(dim=1, keepdim=True))


def test_resolution_is_halved_three_times():
    net = ATSNet()
    assert net.blocks(net.stem(torch.rand(1, 3, 100, 100))).shape[-2:] == (13, 13)


def test_a_stem_with_a_stride_takes_every_second_place_of_one_without():
    torch.manual_seed(0)
    net, image = ThinResNet(stem_stride=2), torch.rand(1, 3, 20, 30)
    everywhere = torch.nn.functional.conv2d(image, net.stem.weight, padding=2)
    assert_close(net.stem(image), everywhere[..., ::2, ::2])


def test_a_stem_without_a_stride_is_refused():
    with pytest.raises(ValueError, match="stem_stride is 0, expected 1 or more"):
        ThinResNet(stem_stride=0)


@pytest.mark.parametrize("widths", [(12,), (4, 8), ()])
def test_widths_that_cannot_be_trained_are_refused(widths):
    with pytest.raises(ValueError, match="two or more, each at least 8"):
        ThinResNet(widths=widths)


def test_the_largest_response_does_not_depend_on_how_much_background_surrounds_it():
    torch.manual_seed(0)
    net, mean = ThinResNet().eval(), ThinResNet(pool="mean").eval()
    mean.load_state_dict(net.state_dict())
    evidence = torch.rand(1, 3, 32, 32)
    small, large = torch.zeros(1, 3, 96, 96), torch.zeros(1, 3, 192, 192)
    for patch in (small, large):
        patch[..., 32:64, 32:64] = evidence
    assert_close(net(small), net(large))
    assert not torch.allclose(mean(small), mean(large))


def test_the_shortcut_is_a_convolution_of_stride_two_and_its_gradient_stays_in_its_memory():
    """12 channels of 90² px, channels last: torch's own strided 1×1 convolution ends the process here."""
    torch.manual_seed(0)
    block: Any = ThinResNet(widths=(12, 24)).blocks[0]
    active = torch.rand(16, 12, 90, 90)
    expected = torch.nn.functional.conv2d(active.double(), block.shortcut.weight.double(), stride=2)
    assert_close(block.shortcut(active[:, :, ::2, ::2]), expected.float())
    block = block.to(memory_format=torch.channels_last)
    image = active.contiguous(memory_format=torch.channels_last).requires_grad_()
    block(image).square().sum().backward()
    assert image.grad.isfinite().all()
