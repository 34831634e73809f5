import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from saccade import ModelConfig
from saccade.building import build_model, load_model
from saccade.images import make_view
from saccade.systems import CNN

CONFIG = ModelConfig(system="cnn", num_classes=3, image_size=(64, 96), view={"scale": 0.25}, classes=("a", "b", "c"))


def test_it_sees_nothing_but_the_view():
    torch.manual_seed(0)
    model = CNN(CONFIG).eval()
    fine = torch.zeros(1, 3, 64, 96)
    fine[..., ::2] = 1  # stripes that a view at 1/4 cannot show
    gray = torch.nn.functional.interpolate(make_view(fine, 0.25), size=(64, 96), mode="nearest")
    assert_close(model(fine).logits, model(gray).logits)


def test_the_loss_is_cross_entropy():
    model, label = CNN(CONFIG).eval(), torch.tensor([0, 2])
    output = model(torch.rand(2, 3, 64, 96))
    weight = torch.tensor([1.0, 2.0, 3.0])
    assert_close(model.loss(output, label, class_weight=weight), F.cross_entropy(output.logits, label, weight=weight))


@pytest.mark.parametrize("system", ["cnn", "patch_selection"])
def test_a_model_comes_back_as_the_system_it_was(system, tmp_path):
    config = ModelConfig(
        system=system, num_classes=3, image_size=(64, 96), extraction={"patch": 24}, classes=("a", "b", "c")
    )
    model = build_model(config).eval()
    model.save_pretrained(tmp_path)
    again, image = load_model(tmp_path), torch.rand(2, 3, 64, 96)
    assert type(again) is type(model)
    assert again.config == config
    assert torch.equal(again(image).logits, model(image).logits)


def test_an_unknown_system_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"unknown system 'rnn': expected one of patch_selection, cnn"):
        build_model(ModelConfig(system="rnn", num_classes=3, image_size=(64, 96)))
