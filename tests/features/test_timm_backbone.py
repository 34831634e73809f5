from pathlib import Path

import pytest
import timm
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from saccade.features import Backbone


def test_is_timms_own_forward_on_normalized_pixels():
    torch.manual_seed(0)
    backbone = Backbone(model="resnet10t").eval()
    patches = torch.rand(2, 3, 64, 64)
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    expected = backbone.net((patches - mean[:, None, None]) / std[:, None, None])
    assert_close(backbone(patches), expected)
    assert backbone(patches).shape == (2, backbone.width)


def test_weights_from_a_local_file(tmp_path):
    """A file in timm's key names, classifier included, loads into the headless net."""
    torch.manual_seed(0)
    whole = timm.create_model("resnet10t", num_classes=1000)
    path = tmp_path / "weights.safetensors"
    save_file(whole.state_dict(), path)
    backbone = Backbone(model="resnet10t", weights=str(path))
    loaded = backbone.net.state_dict()
    assert loaded.keys() == {name for name in whole.state_dict() if not name.startswith("fc.")}
    for name, value in loaded.items():
        assert torch.equal(value, whole.state_dict()[name]), name


def test_imagenet_weights(shared_data: Path):
    path = shared_data.parent / "weights" / "tf_efficientnet_lite0.safetensors"
    if not path.is_file():
        pytest.skip(f"no ImageNet weights at {path}")
    backbone = Backbone(model="tf_efficientnet_lite0", weights=str(path)).eval()
    published = load_file(path)
    for name, value in backbone.net.state_dict().items():
        assert torch.equal(value, published[name]), name
    assert_close(backbone.mean.flatten(), torch.full((3,), 0.5))


@pytest.mark.parametrize("model", ["mobilenetv3_small_050", "ghostnet_050", "vit_tiny_patch16_224", "efficientvit_m0"])
def test_nets_with_their_own_heads_or_sizes(model):
    """Some widen their features after the last block, some are built for one input size."""
    backbone = Backbone(model=model, patch=(96, 96)).eval()
    assert backbone(torch.rand(2, 3, 96, 96)).shape == (2, backbone.width)


def test_gray_images():
    assert Backbone(1, model="resnet10t")(torch.rand(2, 1, 64, 64)).shape == (2, 512)


def test_unknown_names_and_missing_files_say_what_to_do():
    with pytest.raises(ValueError, match=r"timm has no model 'resnet19'.*resnet"):
        Backbone(model="resnet19")
    with pytest.raises(FileNotFoundError, match=r"no usable weights at nowhere.safetensors"):
        Backbone(model="resnet10t", weights="nowhere.safetensors")


def test_weights_of_another_network_or_a_damaged_file_are_refused_in_one_sentence(tmp_path):
    path = tmp_path / "weights.safetensors"
    save_file(timm.create_model("resnet18").state_dict(), path)
    with pytest.raises(ValueError, match=r"weights.safetensors does not hold the weights of resnet50") as refused:
        Backbone(model="resnet50", weights=str(path))
    assert len(str(refused.value)) < 500
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(ValueError, match=r"does not hold the weights of resnet18 .* is the file whole"):
        Backbone(model="resnet18", weights=str(path))


@pytest.mark.parametrize(
    ("model", "first"),
    [
        ("resnet18", "layer2.0.conv1.weight"),
        ("tf_efficientnet_lite0", "blocks.2.0.conv_pw.weight"),
        ("convnext_atto", "stages.1.downsample.0.weight"),
    ],
)
def test_held_early_layers_are_all_before_the_stage_at_an_eighth(model, first):
    backbone = Backbone(model=model)
    names = [name for name, _ in backbone.net.named_parameters()]
    backbone.hold_early_layers()
    backbone(torch.rand(2, 3, 64, 64)).sum().backward()
    taught = [name for name, parameter in backbone.net.named_parameters() if parameter.grad is not None]
    assert taught == names[names.index(first) :]
