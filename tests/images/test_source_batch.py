"""A model on sources is the model on the tensor: same answers, same gradients, and nothing read but what it needs."""

import inspect
from pathlib import Path

import numpy as np
import pytest
import tifffile
import torch
from torch import Tensor
from torch.testing import assert_close

from saccade.building import build_model
from saccade.config import ModelConfig
from saccade.images import ImageSource, SlideImage, Sources, cut_regions, make_view, open_image
from saccade.model import Output, PatchSelectionModel

HEIGHT, WIDTH = 150, 210


@pytest.fixture
def slides(tmp_path) -> list[Path]:
    """Tiled files without further levels, so that their views are those of the tensor."""
    rng = np.random.default_rng(0)
    paths = [tmp_path / f"{number}.tif" for number in range(2)]
    for path in paths:
        pixels = rng.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
        tifffile.imwrite(path, pixels, photometric="rgb", tile=(32, 32), compression="deflate")
    return paths


def open_both(paths: list[Path]) -> tuple[Sources, Tensor]:
    pixels = [torch.from_numpy(tifffile.imread(path)).permute(2, 0, 1) / 255 for path in paths]
    return Sources([SlideImage(path) for path in paths]), torch.stack(pixels)


def make_model(**stages) -> PatchSelectionModel:
    torch.manual_seed(0)
    chosen = {
        "view": {"scale": 1 / 3},
        "scorer": {"name": "conv", "widths": [4], "pool": 4},
        "selection": {"name": "perturbed", "k": 3, "num_samples": 50},
        "extraction": {"patch": [24, 30]},
        "features": {"name": "ats", "width": 8},
    }
    return PatchSelectionModel.from_config(ModelConfig(num_classes=3, image_size=(HEIGHT, WIDTH), **(chosen | stages)))


def test_a_batch_has_the_pixels_of_its_sources(slides):
    sources, image = open_both(slides)
    corners = torch.tensor([[[-7, 5], [190, 140]], [[0, 0], [300, 10]]])
    assert sources.shape == image.shape
    assert_close(cut_regions(sources, corners, (20, 30)), cut_regions(image, corners, (20, 30)), atol=1e-6, rtol=0)
    assert_close(make_view(sources, 1 / 3), make_view(image, 1 / 3), atol=1e-5, rtol=0)
    assert_close(make_view(sources[1:], 1 / 2), make_view(image[1:], 1 / 2), atol=1e-5, rtol=0)


def outcome(model: PatchSelectionModel, image: Sources | Tensor) -> tuple[Output, list[Tensor | None]]:
    torch.manual_seed(1)
    model.zero_grad()
    output = model(image)
    model.loss(output, torch.tensor([0, 2])).backward()
    return output, [parameter.grad for parameter in model.parameters()]


@pytest.mark.parametrize("aggregation", ["mean", "transformer"])
@pytest.mark.parametrize("training", [False, True])
def test_a_model_on_sources_is_the_model_on_the_tensor(slides, training, aggregation):
    options = {"name": aggregation} | ({"dropout": 0.0} if aggregation == "transformer" else {})
    model = make_model(aggregation=options, extraction={"patch": [40, 54]}).train(training)
    sources, image = open_both(slides)
    (ours, our_gradients), (theirs, their_gradients) = outcome(model, sources), outcome(model, image)
    tolerance = {"atol": 1e-4, "rtol": 1e-3}
    assert torch.equal(ours.selection.index, theirs.selection.index)
    assert torch.equal(ours.boxes, theirs.boxes)
    assert_close(ours.raw_scores, theirs.raw_scores, atol=1e-4, rtol=1e-4)
    assert_close(ours.logits, theirs.logits, **tolerance)
    assert any(gradient is not None and gradient.any() for gradient in our_gradients)
    for mine, other in zip(our_gradients, their_gradients, strict=True):
        assert (mine is None) == (other is None)
        if mine is not None:
            assert_close(mine, other, **tolerance)


class Counting:
    """A source that counts the regions it hands out."""

    def __init__(self, source: ImageSource):
        self.source, self.size, self.read = source, source.size, 0

    def view(self, scale: float) -> Tensor:
        return self.source.view(scale)

    def regions(self, boxes: Tensor) -> Tensor:
        self.read += len(boxes)
        return self.source.regions(boxes)


def test_only_the_chosen_regions_are_read_in_evaluation_and_only_the_support_in_training(slides):
    model = make_model(selection={"name": "perturbed", "k": 3, "num_samples": 50, "sigma": 0.01})
    watched = Counting(SlideImage(slides[0]))
    model.eval()(Sources([watched]))
    assert watched.read == 3
    watched.read = 0
    output = model.train()(Sources([watched]))
    used = int((output.selection.weight != 0).any(dim=1).sum())
    assert watched.read == used
    output.logits.sum().backward()
    support = output.selection.index.shape[1]
    assert watched.read == used + support
    assert support < output.scores.shape[1] / 2


def test_images_of_two_sizes_are_refused():
    with pytest.raises(ValueError, match=r"30×40, 50×40: expected one size.*batch of 1"):
        Sources([open_image(torch.rand(3, 30, 40)), open_image(torch.rand(3, 50, 40))])
    with pytest.raises(ValueError, match="none"):
        Sources([])


def test_a_model_with_positions_says_what_it_needs(slides):
    with pytest.raises(ValueError, match=r"positions: true.*pass a tensor"):
        make_model(positions=True).eval()(open_both(slides)[0])


def test_pixels_come_in_the_asked_dtype(slides):
    sources, image = open_both(slides)
    model = make_model().double().eval()
    assert_close(model(sources.to("cpu", torch.float64)).logits, model(image.double()).logits, atol=1e-4, rtol=1e-4)


PARTS = {
    "view": {"scale": 1},
    "scorer": {"name": "proposals"},
    "features": {"name": "backbone", "model": "test_resnet"},
    "aggregation": {"name": "concat"},
    "extraction": {"patch": 32},
}
TAKE = {"cnn": {}, "majority": {}, "ips": {"extraction": {"patch": 32}}}
REFUSE = {
    "spatial": {"extraction": {"patch": 32}},
    "nts_net": {**PARTS, "selection": {"name": "nms", "k": 2, "proposals": 3}},
    "nts_topk": {**PARTS, "selection": {"name": "perturbed", "k": 2}},
}


def make_system(name: str, **options):
    torch.manual_seed(0)
    return build_model(ModelConfig(system=name, num_classes=3, image_size=(HEIGHT, WIDTH), **options)).eval()


@pytest.mark.parametrize("name", TAKE)
def test_systems_that_read_views_and_patches_take_sources(slides, name):
    model, (sources, image) = make_system(name, **TAKE[name]), open_both(slides)
    assert_close(model(sources).logits, model(image).logits, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("name", REFUSE)
def test_systems_that_need_whole_images_refuse_sources(slides, name):
    model, (sources, image) = make_system(name, **REFUSE[name]), open_both(slides)
    assert model(image).logits.shape == (2, 3)
    with pytest.raises(ValueError, match=f"the system {name} needs the pixels of whole images and got Sources: pass a"):
        inspect.unwrap(type(model).forward)(model, sources)


def test_sources_have_the_channels_of_their_pixels():
    gray, rgb = torch.rand(1, HEIGHT, WIDTH), torch.rand(3, HEIGHT, WIDTH)
    sources = Sources([open_image(gray)])
    model = make_model(channels=1).eval()
    assert_close(model(sources).logits, model(gray[None]).logits, atol=1e-5, rtol=1e-4)
    with pytest.raises(ValueError, match=r"shape \(1, 1, 150, 210\) .* expected \(batch, 3, height, width\)"):
        inspect.unwrap(PatchSelectionModel.forward)(make_model().eval(), sources)
    with pytest.raises(ValueError, match="channels of the images in a batch are 1, 3: expected one number"):
        Sources([open_image(gray), open_image(rgb)])
