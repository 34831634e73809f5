"""Folded models answer as the originals do; what cannot be folded is left alone."""

import pytest
import timm
import torch
from timm.layers.std_conv import StdConv2d
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm
from torch.testing import assert_close

from saccade.building import build_model
from saccade.config import ModelConfig
from saccade.inference import fold_batch_norms, for_inference


def unsettle(model: nn.Module) -> nn.Module:
    """Running statistics and scales as after training: fresh ones make every batch norm nearly the identity."""
    generator = torch.Generator().manual_seed(0)
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            for value, low, high in (
                (layer.running_var, 0.5, 2),
                (layer.weight, 0.5, 1.5),
                (layer.running_mean, -1, 1),
            ):
                value.data.uniform_(low, high, generator=generator)
            layer.bias.data.uniform_(-1, 1, generator=generator)
    return model.eval()


def norms(model: nn.Module) -> int:
    return sum(isinstance(layer, nn.BatchNorm2d) for layer in model.modules())


class Branching(nn.Module):
    """Its first convolution is read twice, its second runs twice, its third is followed by a batch norm alone."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(3))
        self.bns = nn.ModuleList(nn.BatchNorm2d(4) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        x = self.convs[0](x)
        x = x + self.bns[0](x)
        x = self.bns[1](self.convs[1](self.convs[1](x)))
        return self.bns[2](self.convs[2](x))


class Peeking(nn.Module):
    """Cannot be traced: it looks at values."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(4, 4, 3, bias=False), nn.BatchNorm2d(4))
        self.lone = nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> Tensor:
        return self.lone(self.first(x)) if x.mean() > 0 else x


def test_only_what_one_batch_norm_alone_reads_is_folded():
    torch.manual_seed(0)
    model, image = unsettle(Branching()), torch.rand(2, 4, 9, 9)
    fast = for_inference(model)
    assert norms(fast) == 2
    assert_close(fast(image), model(image), atol=1e-5, rtol=1e-5)


def test_what_cannot_be_traced_is_folded_in_its_parts():
    torch.manual_seed(0)
    model, image = unsettle(Peeking()), torch.rand(2, 4, 9, 9)
    expected = model(image)
    assert fold_batch_norms(model) == 1
    assert_close(model(image), expected, atol=1e-5, rtol=1e-5)


class Sharing(nn.Module):
    """Cannot be traced, and two of its parts share a convolution."""

    def __init__(self):
        super().__init__()
        shared = nn.Conv2d(4, 4, 3, padding=1)
        self.left, self.right = (nn.Sequential(shared, nn.BatchNorm2d(4)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        return self.left(x) if x.mean() > 0.6 else self.right(x)


@pytest.mark.parametrize(
    "model",
    [
        Sharing(),
        nn.Sequential(StdConv2d(4, 4, 3), nn.BatchNorm2d(4)),
        nn.Sequential(weight_norm(nn.Conv2d(4, 4, 3)), nn.BatchNorm2d(4)),
    ],
    ids=["shared", "standardized", "normed"],
)
def test_a_convolution_that_is_more_than_its_weight_is_left_alone(model):
    torch.manual_seed(0)
    model, image = unsettle(model), torch.rand(2, 4, 9, 9)
    assert_close(for_inference(model)(image), model(image))


@pytest.mark.parametrize("name", ["resnet10t", "tf_efficientnet_lite0", "mobilenetv3_small_050", "regnetx_002"])
def test_backbones_give_the_same_features_without_batch_norms(name):
    torch.manual_seed(0)
    model = unsettle(timm.create_model(name, num_classes=0)).double()
    image = torch.rand(2, 3, 64, 64, dtype=torch.float64)
    fast = for_inference(model)
    assert norms(fast) == 0 < norms(model)
    assert_close(fast(image), model(image), atol=1e-9, rtol=1e-9)


def test_a_system_answers_the_same_and_is_left_as_it_was():
    torch.manual_seed(0)
    config = ModelConfig(
        num_classes=3,
        image_size=(96, 96),
        selection={"name": "perturbed", "k": 2},
        extraction={"patch": 32},
        features={"name": "backbone", "model": "resnet10t"},
    )
    model = unsettle(build_model(config)).train()
    fast, image = for_inference(model), torch.rand(2, 3, 96, 96)
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert norms(fast) == 0 < norms(model)
    expected, got = model.eval()(image), fast(image.contiguous(memory_format=torch.channels_last))
    assert_close(got.logits, expected.logits, atol=1e-5, rtol=1e-5)
    assert_close(got.boxes, expected.boxes)


def test_a_folded_copy_is_not_saved_where_it_could_not_be_loaded(tmp_path):
    config = ModelConfig(system="cnn", num_classes=3, image_size=(64, 64), features={"name": "thin"})
    model = build_model(config)
    with pytest.raises(ValueError, match=r"a copy that for_inference made.* save the model it was made from"):
        for_inference(model).save_pretrained(tmp_path / "folded")
    assert not (tmp_path / "folded").exists()
    model.save_pretrained(tmp_path / "whole")  # the original can be, also after it


@pytest.mark.slow
def test_a_compiled_feature_network_answers_the_same_for_any_number_of_images():
    torch.manual_seed(0)
    stages = {"view": {"scale": 1.0}, "selection": {"name": "perturbed", "k": 2}, "extraction": {"patch": 32}}
    model = unsettle(build_model(ModelConfig(num_classes=3, image_size=(64, 64), **stages)))
    compiled = for_inference(model, compile=True)
    with torch.inference_mode():
        for count in (1, 3):
            images = torch.rand(count, 3, 64, 64)
            assert_close(compiled(images).logits, model(images).logits, atol=1e-4, rtol=1e-4)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] >= 2  # one for each size: it did compile
    torch.compiler.reset()
