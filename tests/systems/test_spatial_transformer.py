"""Glimpses start apart and at the natural scale, and the localization gets its gradient."""

import json
from dataclasses import replace
from typing import Any

import pytest
import torch
from tiny import make_spots, tiny_recipe
from torch import Tensor
from torch.testing import assert_close

from saccade import ModelConfig
from saccade.building import build_model, load_model
from saccade.images import cut_regions
from saccade.looking import look_at
from saccade.report import write_report
from saccade.systems import SpatialTransformer
from saccade.systems.glimpses import FREE, Transforms, glimpses
from saccade.systems.spatial_transformer import spread
from saccade.training.phases import Training
from saccade.training.run import train

SIZE, PATCH = (50, 70), (12, 16)


def make_model(**changes: Any) -> SpatialTransformer:
    """In double precision, with a localization that looks at the image."""
    torch.manual_seed(0)
    stages: dict[str, Any] = {
        "view": {"scale": 0.5},
        "extraction": {"patch": list(PATCH)},
        "features": {"name": "ats", "width": 8},
        "aggregation": {"name": "mean"},
        "options": {"k": 3},
    }
    model = SpatialTransformer(ModelConfig(system="spatial", num_classes=3, image_size=SIZE, **stages | changes))
    for parameter in model.localization.last.parameters():
        torch.nn.init.normal_(parameter, std=3.0)
    return model.double().eval()


def make_image(count: int = 2) -> Tensor:
    return torch.rand(count, 3, *SIZE, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("free", list(FREE))
def test_the_loss_reaches_the_localization(free):
    model, image, label = make_model(options={"k": 3, "free": free}), make_image(), torch.tensor([2, 0])
    model.loss(model(image), label).backward()
    for layer in (model.localization.layers[0], model.localization.last):
        weight = layer.weight
        assert isinstance(weight, torch.nn.Parameter)
        assert weight.grad is not None
        direction = torch.randn(weight.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
        ends = []
        for step in (1e-6, -1e-6):
            with torch.no_grad():
                weight.add_(step * direction)
                ends.append(model.loss(model(image), label))
                weight.sub_(step * direction)
        assert_close((weight.grad * direction).sum(), (ends[0] - ends[1]) / 2e-6, rtol=1e-4, atol=1e-9)
        assert (weight.grad * direction).sum().abs() > 1e-6


@torch.no_grad()
@pytest.mark.parametrize(("aggregation", "same"), [("mean", True), ("max", True), ("concat", False)])
def test_only_concat_knows_the_glimpses_apart(aggregation, same):
    model, image = make_model(aggregation={"name": aggregation}), make_image()
    before, order = model(image), torch.tensor([2, 0, 1])
    for parameter in model.localization.last.parameters():
        parameter.copy_(parameter.unflatten(0, (3, -1))[order].flatten(0, 1))
    model.localization.start.copy_(model.localization.start[order])
    after = model(image)
    assert torch.equal(after.boxes, before.boxes[:, order])
    assert torch.allclose(after.logits, before.logits) is same


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 7, 12])
@pytest.mark.parametrize("size", [(336, 448), (100, 900), (500, 40)])
def test_glimpses_start_apart_at_the_natural_scale_whatever_the_image(k, size):
    config = ModelConfig(
        system="spatial",
        num_classes=2,
        image_size=size,
        view={"scale": 0.1},
        extraction={"patch": [20, 24]},
        features={"name": "ats", "width": 8},
        options={"k": k, "free": "affine"},
    )
    with torch.no_grad():
        boxes = SpatialTransformer(config).train()(torch.rand(2, 3, *size)).boxes
    assert torch.equal(boxes[0], boxes[1])
    assert (boxes[..., 2:] - boxes[..., :2] - torch.tensor([24, 20])).abs().max() <= 1  # rounding
    assert len(boxes[0].unique(dim=0)) == k
    places = spread(k, size)
    assert places.abs().max() < 1
    assert_close(places.mean(dim=0), torch.zeros(2), atol=0.35, rtol=0)  # a last row with fewer pulls up


@torch.no_grad()
def test_it_takes_images_of_other_sizes_and_comes_back_from_a_folder(tmp_path):
    model = build_model(make_model().config).eval()
    model.save_pretrained(tmp_path)
    image = torch.rand(2, 3, 90, 61)
    assert torch.equal(load_model(tmp_path)(image).logits, model(image).logits)


@torch.no_grad()
def test_glimpses_show_the_position_channels_too():
    model, image = make_model(positions=True), make_image()
    seen = []
    model.features.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    output = model(image)
    x_px = seen[0].unflatten(0, (2, 3))[:, :, 3].mean(dim=(2, 3)) * SIZE[1]  # the mean of x in a glimpse: its middle
    inside = ((output.boxes[..., :2] >= 0) & (output.boxes[..., 2:] <= torch.tensor([70, 50]))).all(dim=-1)
    assert inside.any()
    assert ((x_px - (output.boxes[..., 0] + output.boxes[..., 2]) / 2).abs()[inside] <= 0.5).all()


def test_a_run_from_training_to_the_report(tmp_path, monkeypatch):
    monkeypatch.setattr("saccade.report.shown_images.EXAMPLES", 1)
    recipe = tiny_recipe(make_spots(tmp_path / "data"), steps=2)
    stages = replace(recipe.model, system="spatial", options={"k": 3, "free": "affine"})
    run = train(replace(recipe, model=stages, training=Training()), tmp_path / "run")
    summary = json.loads((run / "evaluation" / "test.json").read_text())
    assert summary["pixels"] == {"image": 64 * 64, "view": 16 * 16, "patches": 3 * 20 * 20}
    assert 0 <= summary["hit_rate"] <= 1
    assert "entropy" not in summary
    page = write_report(run).read_text()
    assert "Boxes are the patches looked at. Dashed boxes" in page
    assert "The first patch, in" in page


def test_a_look_shows_what_is_inside_the_boxes():
    model = make_model(extraction={"patch": [12, 16]}).float()
    image = torch.randint(256, (3, *SIZE), generator=torch.Generator().manual_seed(1)).byte()
    seen = image[None] / 255
    with torch.no_grad():
        look = look_at(model(seen), size=(image.shape[-2], image.shape[-1]), seen=seen)
    assert (len(look.box_scores), look.scores.size) == (0, 0)
    with torch.no_grad():
        assert look.boxes.tolist() == model(image[None] / 255).boxes[0].tolist()
    regions = cut_regions(image[None].float(), torch.from_numpy(look.boxes[None, :, :2]), PATCH)[0]
    assert (torch.from_numpy(look.crops).permute(0, 3, 1, 2) - regions).abs().max() <= 1


def test_bfloat16_keeps_its_place():
    """A glimpse far right in a wide image is off by many pixels if places are rounded to eight bits."""
    model = make_model().float()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        transforms = model.localize(make_image().float())
    assert transforms.center_px.dtype == torch.float32
    wide = torch.rand(1, 3, 8, 1280, generator=torch.Generator().manual_seed(0))
    place = Transforms(torch.tensor([[[1200.0, 4.0]]]), torch.eye(2)[None, None])
    with torch.autocast("cpu", torch.bfloat16):
        shown = glimpses(wide, place, (8, 100))
    assert_close(shown[0, 0], wide[0, :, :, 1150:1250], atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"aggregation": {"name": "transformer"}}, "glimpses lie anywhere; use mean, max, concat or attention"),
        ({"aggregation": {"name": "placed"}}, "does not go with the aggregation placed"),
        ({"options": {"free": "rotation"}}, 'free is "rotation", expected translation, scale or affine'),
        ({"options": {"k": 0}}, "options.k is 0: expected at least 1"),
        ({"options": {"memory": 3}}, "the system spatial has no option 'memory': it takes k, free"),
    ],
)
def test_what_does_not_go_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        make_model(**changes)
