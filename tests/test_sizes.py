"""Candidates of several sizes through the whole library: training, files, streaming, predictions and pictures."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image
from tiny import make_spots, tiny_recipe
from tiny_fit import fit
from torch.testing import assert_close
from torchvision.transforms.v2 import functional as v2

from saccade.building import load_model
from saccade.config import ModelConfig
from saccade.images import SlideImage, Sources, open_image
from saccade.images.decode import read_pixels
from saccade.looking import Look, look_at
from saccade.model import PatchSelectionModel
from saccade.model_card import write_card
from saccade.predict import Predictor
from saccade.training.observers.snapshot import find_places
from saccade.training.phases import LabelFreeOptions, Training

SIZES = [16, [32, 32], [16, 32]]
TRAINED = ["perturbed", "diverse", "sinkhorn", "gumbel", "softsort", "straight_through", "ats"]


def make(selection: str = "perturbed", **changes: Any) -> PatchSelectionModel:
    """With scores such that candidates of every size are among the best of most images."""
    torch.manual_seed(0)
    stages = {"view": {"scale": 0.25}, "features": {"name": "ats", "width": 8}}
    config = ModelConfig(
        num_classes=2,
        image_size=(96, 128),
        selection={"name": selection, "k": 12},
        scorer={"name": "conv", "widths": [4], "pool": 4},
        extraction={"patch": 16, "sizes": SIZES},
        classes=("across", "along"),
        **stages | changes,
    )
    model = PatchSelectionModel.from_config(config)
    last = model.scorer.layers[-2]
    torch.nn.init.normal_(last.weight)
    with torch.no_grad():
        last.weight -= last.weight.mean(dim=(1, 2, 3), keepdim=True)
        last.bias.zero_()
    return model


def noise(count: int = 2, size: tuple[int, int] = (96, 128)) -> torch.Tensor:
    return torch.rand(count, 3, *size, generator=torch.Generator().manual_seed(0))


def areas(boxes: torch.Tensor) -> set[tuple[int, int]]:
    """Heights and widths that occur."""
    sides = (boxes[..., 2:] - boxes[..., :2]).flatten(0, -2)
    return {(height, width) for width, height in sides.tolist()}


ALL = {(16, 16), (32, 32), (16, 32)}


@pytest.mark.parametrize("selection", TRAINED)
def test_labels_reach_the_scores_of_every_size(selection):
    model = make(selection).train()
    output = model(noise())
    model.loss(output, torch.tensor([0, 1]), entropy_coefficient=0.0).backward()
    grad = model.scorer.layers[-2].weight.grad
    assert grad.isfinite().all()
    assert (grad.flatten(1).abs().sum(dim=1) > 0).all()


@pytest.mark.parametrize("selection", [*TRAINED, "hard"])
@torch.no_grad()
def test_what_is_streamed_is_what_is_there(selection):
    """And boxes are as large as the candidates are."""
    model, images = make(selection).eval(), noise()
    whole, streamed = model(images), model(Sources([open_image(image) for image in images]))
    assert len(areas(whole.boxes)) > 1
    assert torch.equal(whole.boxes, streamed.boxes)
    assert_close(whole.logits, streamed.logits, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_a_saved_model_answers_as_before(tmp_path):
    model = make(aggregation={"name": "placed"}).eval()
    model.save_pretrained(tmp_path)
    again = load_model(tmp_path)
    for size in ((96, 128), (80, 150)):
        assert torch.equal(again(noise(size=size)).logits, model(noise(size=size)).logits)


def assert_cut_out(look: Look, image: torch.Tensor) -> None:
    """Every crop is its box, cut out of the image and resized."""
    border = torch.nn.functional.pad(image, (40,) * 4)
    for crop, (left, top, right, bottom) in zip(look.crops, (look.boxes + 40).tolist(), strict=True):
        cut = v2.resize(border[:, top:bottom, left:right], [16, 16], antialias=True)
        assert np.abs(crop.transpose(2, 0, 1) - 255 * cut.numpy()).max() <= 0.5 + 1e-3


@torch.no_grad()
def test_crops_are_what_was_read_and_the_map_shows_the_best_size():
    model, images = make().eval(), noise()
    output = model(images)
    for seen in (images, Sources([open_image(image) for image in images])):
        look = look_at(output, 1, size=(96, 128), seen=seen)
        assert areas(torch.from_numpy(look.boxes)) == ALL
        assert_cut_out(look, images[1])
    best = output.scores[1].reshape(3, *output.grid.shape).amax(dim=0)
    np.testing.assert_array_equal(look.scores, best.numpy())


def write_pyramid(path: Path, pixels: np.ndarray) -> None:
    with tifffile.TiffWriter(path) as tiff:
        options = {"tile": (32, 32), "photometric": "rgb"}
        tiff.write(pixels, subifds=1, **options)
        tiff.write(pixels[::2, ::2], subfiletype=1, **options)


def test_of_a_pyramid_only_the_view_and_the_boxes_are_read(tmp_path, monkeypatch):
    make().save_pretrained(tmp_path / "model")
    smooth = np.random.default_rng(0).integers(0, 256, (24, 40, 3), dtype=np.uint8)
    write_pyramid(tmp_path / "slide.tif", np.array(Image.fromarray(smooth).resize((640, 384))))
    predictor = Predictor(tmp_path / "model", device="cpu")
    asked, read = [], []
    regions, read_box = SlideImage.regions, SlideImage._read
    monkeypatch.setattr(SlideImage, "regions", lambda self, boxes: asked.extend(boxes) or regions(self, boxes))
    monkeypatch.setattr(
        SlideImage, "_read", lambda self, level, box: read.append((level, box)) or read_box(self, level, box)
    )
    answer = predictor(tmp_path / "slide.tif")
    assert sorted(map(tuple, torch.stack(asked).tolist())) == sorted(box[:4] for box in answer.boxes)
    assert len(areas(torch.stack(asked))) > 1
    full = sum((box.bottom - box.top) * (box.right - box.left) for level, box in read if level == 0)
    assert 0 < full <= 12 * 32 * 32  # of 245,760 pixels
    look = predictor(tmp_path / "slide.tif", crops=True).look
    assert_cut_out(look, torch.from_numpy(read_pixels(tmp_path / "slide.tif")).movedim(-1, 0) / 255)


def test_a_streamed_step_of_several_sizes_learns_the_same():
    """The same noise and pixels, so the same gradients."""
    gradients = []
    for seen in (noise(), Sources([open_image(image) for image in noise()])):
        model = make(view={"scale": 1.0}).train()
        torch.manual_seed(1)
        model.loss(model(seen), torch.tensor([0, 1])).backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for ours, theirs in zip(*gradients, strict=True):
        assert_close(ours, theirs, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("training", ["plain", "guided_by_detail", "guided_by_scores"])
def test_a_run_trains_with_them_and_its_model_comes_back(training, tmp_path):
    recipe = tiny_recipe(make_spots(tmp_path / "data", 20))
    stages = replace(recipe.model, extraction={"patch": 12, "sizes": [12, 24]}, aggregation={"name": "placed"})
    learner = fit(replace(recipe, model=stages, training=Training(training, LabelFreeOptions(4))), tmp_path / "run")
    assert learner.model.grid((64, 64)).num_candidates == 2 * 64
    again = load_model(tmp_path / "run" / "best")
    assert again.config.extraction == {"patch": 12, "sizes": [12, 24]}


def test_places_of_a_health_check_are_cells():
    places = find_places(make().grid((96, 128)), (96, 128))
    assert len(places.centers) == 6 * 8
    assert_close(places.half, torch.tensor([8 / 128, 8 / 96]))  # of the smallest: what any patch would cross


def test_a_card_names_every_size(tmp_path):
    write_card(tmp_path, make().config, 1000)
    assert "12 patches of 16×16 px or 32×32 px or 32×16 px." in (tmp_path / "README.md").read_text()
