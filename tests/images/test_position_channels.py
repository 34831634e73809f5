from dataclasses import replace

import pytest
import timm
import torch
from oracles import seeded
from safetensors.torch import save_file
from torch.testing import assert_close

from saccade import ModelConfig
from saccade.building import build_model, load_model
from saccade.features import Backbone
from saccade.images import add_positions, make_view

CONFIG = ModelConfig(
    num_classes=3,
    image_size=(64, 96),
    view={"scale": 0.25},
    scorer={"name": "conv", "widths": [4], "pool": 2},
    selection={"name": "hard", "k": 2},
    extraction={"patch": 24},
    features={"name": "ats", "width": 8},
    positions=True,
)


def test_every_pixel_knows_its_center():
    image = torch.rand(2, 3, 4, 5)
    out = add_positions(image)
    assert_close(out[:, :3], image)
    for i in range(4):
        for j in range(5):
            assert_close(out[:, 3:, i, j], torch.tensor([[(2 * j + 1) / 10, (2 * i + 1) / 8]]).expand(2, 2))


def test_the_view_of_the_positions_is_the_positions_of_the_view():
    view = make_view(add_positions(torch.zeros(1, 1, 64, 96)), 1 / 4)[:, 1:]
    expected = add_positions(torch.zeros(1, 1, 16, 24))[:, 1:]
    assert_close(view[..., 1:-1, 1:-1], expected[..., 1:-1, 1:-1])


def test_padding_does_not_move_a_picture():
    """The small picture of a batch has the positions that it has alone, and zeros around it."""
    size = torch.tensor([[4, 6], [8, 8]])
    out = add_positions(torch.zeros(2, 1, 8, 8), size)
    assert_close(out[:1, :, :4, :6], add_positions(torch.zeros(1, 1, 4, 6)))
    assert out[0, :, 4:].abs().sum() == out[0, :, :, 6:].abs().sum() == 0
    assert_close(out[1:], add_positions(torch.zeros(1, 1, 8, 8)))


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_memory_format_and_dtype_are_the_images(memory_format):
    image = torch.rand(2, 3, 8, 8, dtype=torch.float64).to(memory_format=memory_format)
    out = add_positions(image)
    assert out.dtype == torch.float64
    assert out.is_contiguous(memory_format=memory_format)


@pytest.mark.parametrize("system", ["patch_selection", "cnn"])
def test_a_system_with_positions_can_tell_left_from_right(system, tmp_path):
    """On a blank image all patches and all views are alike but for their place."""
    torch.manual_seed(0)
    model = build_model(replace(CONFIG, system=system)).eval()
    image = torch.rand(1, 3, 64, 96, generator=seeded(0))
    seen = []
    hook = model.features.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))  # pyright: ignore
    output = model(image)
    hook.remove()
    assert CONFIG.input_channels == seen[0].shape[1] == 5
    if system == "patch_selection":
        for patch, (left, top, right, bottom) in zip(seen[0], output.boxes[0].tolist(), strict=True):
            row, col = max(0, -top), max(0, -left)  # the first pixel inside the image
            assert_close(patch[3:, row, col], torch.tensor([(left + col + 0.5) / 96, (top + row + 0.5) / 64]))
            assert (right - left, bottom - top) == (24, 24)
    model.save_pretrained(tmp_path)
    assert torch.equal(load_model(tmp_path)(image).logits, output.logits)


def test_a_backbone_normalizes_pixels_and_leaves_positions():
    torch.manual_seed(0)
    backbone = Backbone(5, image_channels=3, model="resnet10t").eval()
    patches = torch.rand(2, 5, 32, 32, generator=seeded(1))
    mean, std = torch.tensor([0.485, 0.456, 0.406, 0, 0]), torch.tensor([0.229, 0.224, 0.225, 1, 1])
    assert_close(backbone(patches), backbone.net((patches - mean[:, None, None]) / std[:, None, None]))
    assert not torch.allclose(backbone(patches), backbone(patches * torch.tensor([1, 1, 1, 0, 0])[:, None, None]))


@pytest.mark.parametrize("model", ["resnet10t", "vit_tiny_patch16_224", "mobilenetv3_small_050"])
def test_weights_for_rgb_give_the_rgb_answer_whatever_the_position(model, tmp_path):
    torch.manual_seed(0)
    path = str(tmp_path / "weights.safetensors")
    save_file(timm.create_model(model, num_classes=10).state_dict(), path)
    with_positions = Backbone(5, image_channels=3, patch=(32, 32), model=model, weights=path).eval()
    plain = Backbone(3, patch=(32, 32), model=model, weights=path).eval()
    patches = torch.rand(2, 5, 32, 32, generator=seeded(2))
    assert_close(with_positions(patches), plain(patches[:, :3]), atol=1e-5, rtol=1e-5)
    first = next(p for p in with_positions.parameters() if p.ndim == 4)
    # Not their sum, and not in training mode: what a norm gives always adds up to the same.
    features = with_positions(patches)
    (features * torch.linspace(0, 1, features.shape[1])).sum().backward()
    assert first.grad is not None
    assert first.grad[:, 3:].abs().sum() > 0  # blind at first, not for ever
