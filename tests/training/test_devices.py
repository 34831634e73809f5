"""Norms that several GPUs share leave a network what it was."""

from copy import deepcopy

import pytest
import timm
import torch
from torch import nn
from torch.testing import assert_close

from saccade.training.devices import make_fabric, share_norms
from saccade.training.recipe import Recipe


@pytest.mark.parametrize("name", ["tf_efficientnet_lite0", "resnet18"])
def test_a_network_says_the_same_with_shared_norms(name):
    torch.manual_seed(0)
    network, image = timm.create_model(name).eval(), torch.rand(2, 3, 64, 64)
    shared = share_norms(deepcopy(network))
    assert any(isinstance(layer, nn.SyncBatchNorm) for layer in shared.modules())
    assert shared.state_dict().keys() == network.state_dict().keys()
    assert_close(shared(image), network(image))


def test_in_mixed_precision_gradients_of_a_weight_used_twice_are_summed_in_float32():
    torch.manual_seed(0)
    layer, inputs = nn.Linear(64, 64), torch.randn(2, 8, 64)

    def gradient(*parts: torch.Tensor) -> torch.Tensor:
        layer.zero_grad()
        with make_fabric(Recipe(accelerator="cpu", precision="bf16-mixed")).autocast():
            loss = torch.stack([layer(part).float().square().mean() for part in parts]).sum()
        loss.backward()
        assert layer.weight.grad is not None
        return layer.weight.grad.clone()

    assert torch.equal(gradient(*inputs), gradient(inputs[0]) + gradient(inputs[1]))
