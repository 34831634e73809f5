"""Training on tiled pyramids: the same recipe, read in parts."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tifffile
import torch
from torch.testing import assert_close

from saccade.building import load_model
from saccade.config import Stages
from saccade.data.dataset import ImageDataset, collate_sources
from saccade.data.records import DataError
from saccade.extraction import Grid
from saccade.images import Sources, bands, decode, make_view, open_image
from saccade.images.decode import BadImage
from saccade.preparation import Preparation
from saccade.report import write_report
from saccade.runs import RunFolder
from saccade.training.batches import open_records, open_split, training_loader
from saccade.training.label_free import missing_detail
from saccade.training.phases import LabelFreeOptions, Training
from saccade.training.recipe import DataOptions, Recipe
from saccade.training.run import evaluate, train
from tests.tiny import make_spots, tiny_recipe
from tests.tiny_fit import fit, make_parts


def make_pyramids(folder: Path, count: int = 20) -> Path:
    """The spots of `make_spots` as tiled pyramids of two levels."""
    make_spots(folder, count)
    with (folder / "labels.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        pixels = decode.read_pixels(folder / row["image"])
        (folder / row["image"]).unlink()
        row["image"] = row["image"].replace(".png", ".tif")
        half = pixels.reshape(32, 2, 32, 2, 3).mean(axis=(1, 3)).round().astype(np.uint8)
        with tifffile.TiffWriter(folder / row["image"]) as tiff:
            for number, level in enumerate((pixels, half)):
                tiff.write(level, photometric="rgb", tile=(16, 16), compression="deflate", subfiletype=int(number > 0))
    with (folder / "labels.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return folder


def streaming(folder: Path, **changes) -> Recipe:
    recipe = tiny_recipe(folder)
    stages = replace(recipe.model, preparation=Preparation(stream=True))
    return replace(recipe, **{"data": DataOptions(path=str(folder), workers=0), "model": stages, **changes})


def open_training(recipe: Recipe) -> ImageDataset:
    return open_split(open_records(recipe.data, seed=0), "train", recipe.data, recipe.model.preparation)


@pytest.fixture(scope="module")
def pyramids(tmp_path_factory) -> Path:
    return make_pyramids(tmp_path_factory.mktemp("pyramids"))


@pytest.fixture
def nothing_decoded(monkeypatch) -> None:
    def refuse(path, **_):
        raise AssertionError(f"{path} was decoded whole")

    for module in ("saccade.data.dataset", "saccade.images.file"):
        monkeypatch.setattr(f"{module}.read_pixels", refuse)


def test_training_on_pyramids_decodes_none_of_them(pyramids, tmp_path, nothing_decoded):
    training = Training("guided_by_detail", LabelFreeOptions(4), guided=0.5)
    fit(streaming(pyramids, steps=4, training=training, validate_every=4), tmp_path)
    assert RunFolder(tmp_path).panel_steps() == [4, 6, 8]
    assert load_model(tmp_path / "best").config.image_size == (64, 64)


@pytest.mark.slow
def test_a_run_with_its_report_decodes_none_of_them(pyramids, tmp_path, nothing_decoded):
    folder = train(streaming(pyramids, steps=4, validate_every=4), tmp_path / "run")
    assert write_report(folder).is_file()
    assert evaluate(folder, split="test")["images"] == 4


def test_a_streamed_step_is_a_step_on_the_pixels(pyramids):
    """The same images, noise and gradients; at scale 1 the view is the image itself."""
    gradients = []
    for stream in (False, True):
        preparation = Preparation(stream=stream)
        model = replace(tiny_recipe(pyramids).model, view={"scale": 1.0}, preparation=preparation)
        learner, data = make_parts(streaming(pyramids, model=model, training=Training(sigma="constant")))
        batch = next(iter(training_loader(data["train"], learner.recipe, first=0)))
        torch.manual_seed(1)
        learner.train()(batch, 0).loss.backward()
        gradients.append([parameter.grad for parameter in learner.model.parameters()])
    for ours, theirs in zip(*gradients, strict=True):
        assert_close(ours, theirs, atol=1e-5, rtol=1e-3)


def test_workers_read_views_ahead(pyramids):
    recipe = streaming(pyramids, data=replace(streaming(pyramids).data, workers=1))
    dataset = open_training(recipe)
    batch = next(iter(training_loader(dataset, recipe, first=0)))
    expected = torch.stack([dataset[index].image.view(0.25) for index in batch.index.tolist()])
    for source in batch.image.images:
        source.view = None  # whoever asked for a view now would fail
    assert_close(batch.image.to("cpu").view(0.25), expected)


def noise(height: int, width: int) -> torch.Tensor:
    return torch.rand(3, height, width, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("piece_px", [70, 2**18])
def test_missing_detail_in_pieces_is_that_of_the_image(piece_px, tmp_path, monkeypatch):
    """Where four times the view's resolution is the image's own."""
    monkeypatch.setattr(bands, "PIECE_PX", piece_px)
    pixels = (noise(61, 83) * 255).byte()
    tifffile.imwrite(tmp_path / "a.tif", pixels.permute(1, 2, 0).numpy(), photometric="rgb", tile=(16, 16))
    image = pixels[None] / 255
    view = make_view(image, 1 / 3)
    grid = Grid(torch.tensor([-7, 20, 50]), torch.tensor([-3, 30, 70]), (24, 31))
    expected = missing_detail(image, view, grid)
    for source in (open_image(tmp_path / "a.tif"), open_image(image[0])):
        assert_close(missing_detail(Sources([source]), view, grid), expected, atol=1e-5, rtol=1e-4)


def test_missing_detail_of_a_coarse_view_ranks_places_as_that_of_the_image(tmp_path):
    rough = torch.zeros(3, 512, 512)
    strength = torch.rand(8, 8, generator=torch.Generator().manual_seed(1))
    rough += noise(512, 512) * strength.repeat_interleave(64, 0).repeat_interleave(64, 1)
    pixels = (rough * 255).byte()
    tifffile.imwrite(tmp_path / "a.tif", pixels.permute(1, 2, 0).numpy(), photometric="rgb", tile=(32, 32))
    view, grid = make_view(pixels[None] / 255, 1 / 16), Grid(torch.arange(8) * 64, torch.arange(8) * 64, (64, 64))
    ours = missing_detail(Sources([open_image(tmp_path / "a.tif")]), view, grid)
    theirs = missing_detail(pixels[None] / 255, view, grid)
    assert torch.corrcoef(torch.cat([ours, theirs]))[0, 1] > 0.95


def test_what_needs_whole_images_is_refused(pyramids):
    light = replace(streaming(pyramids).data, augmentation={"name": "shift_and_light", "max_px": 0})
    with pytest.raises(ValueError, match=r"augmentation shift_and_light needs .* \{name: none\}"):
        make_parts(streaming(pyramids, data=light))
    network = Stages(system="cnn", features={"name": "ats", "width": 8}, preparation=Preparation(stream=True))
    with pytest.raises(ValueError, match=r"system cnn needs whole images: set model\.preparation\.stream to false"):
        make_parts(streaming(pyramids, model=network, training=Training()))
    with pytest.raises(DataError, match="skip_bad"):
        make_parts(streaming(pyramids, data=replace(streaming(pyramids).data, skip_bad=True)))


def test_slides_of_different_sizes_need_a_batch_of_one(tmp_path):
    make_spots(tmp_path, 20, sizes=(64, 80))
    recipe = streaming(tmp_path)
    dataset = open_training(recipe)
    with pytest.raises(ValueError, match=r"64×64, 80×80: expected one size .* batch of 1"):
        collate_sources([dataset[number] for number in range(len(dataset))], scale=0.25)
    assert collate_sources([dataset[0]], scale=0.25).size.tolist() == [list(dataset[0].image.size)]


def test_the_limit_on_pixels_holds_for_files_without_tiles(tmp_path):
    recipe = streaming(make_spots(tmp_path, 20))
    records = open_records(recipe.data, seed=0)
    small = open_split(records, "train", recipe.data, Preparation(stream=True, max_pixels=64 * 64 - 1))
    with pytest.raises(BadImage, match="64×64 is 0 megapixels, the limit is 0"):
        small[0].image.view(0.25)
    assert open_training(recipe)[0].image.view(0.25).shape == (3, 16, 16)


def test_an_image_that_is_gone_is_named(tmp_path):
    recipe = streaming(make_spots(tmp_path, 20))
    dataset = open_training(recipe)
    (tmp_path / "images" / "000.png").unlink()
    with pytest.raises(BadImage, match=r"000\.png: no such file"):
        dataset[0]
