"""Norms that several GPUs share leave a network what it was."""

from copy import deepcopy

import pytest
import timm
import torch
from torch import nn
from torch.testing import assert_close

from saccade.training.devices import share_norms


@pytest.mark.parametrize("name", ["tf_efficientnet_lite0", "resnet18"])
def test_a_network_says_the_same_with_shared_norms(name):
    torch.manual_seed(0)
    network, image = timm.create_model(name).eval(), torch.rand(2, 3, 64, 64)
    shared = share_norms(deepcopy(network))
    assert any(isinstance(layer, nn.SyncBatchNorm) for layer in shared.modules())
    assert shared.state_dict().keys() == network.state_dict().keys()
    assert_close(shared(image), network(image))
