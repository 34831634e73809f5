import torch
from torch.testing import assert_close

from saccade.features import ATSNet


def test_parameters_of_the_released_net():
    assert sum(p.numel() for p in ATSNet().parameters()) == 59_680


def test_l2_normalisation_only_changes_the_length():
    torch.manual_seed(0)
    plain, unit = ATSNet().eval(), ATSNet(l2_normalise=True).eval()
    unit.load_state_dict(plain.state_dict())
    patches = torch.rand(4, 3, 50, 50)
    assert_close(unit(patches).norm(dim=1), torch.ones(4))
    assert_close(unit(patches), plain(patches) / plain(patches).norm(dim=1, keepdim=True))


def test_resolution_is_halved_three_times():
    net = ATSNet()
    assert net.blocks(net.stem(torch.rand(1, 3, 100, 100))).shape[-2:] == (13, 13)
