"""Panels show what the model looks at, taking them changes nothing, and a stopped run has all of them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning.pytorch.loggers import TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tiny import make_spots, tiny_recipe
from tiny_fit import CrashError, crash_at, fit, make_task
from torch.testing import assert_close

from saccade import ModelConfig, PatchSelectionModel
from saccade.data.dataset import unit_range
from saccade.runs import RunFolder
from saccade.runs.training_panels import Panel
from saccade.training.callbacks.panels import Panels, glimpse, look, spread
from saccade.training.recipe import WarmUp


def test_spread_takes_from_every_class():
    labels = np.random.default_rng(0).integers(0, 5, 100).tolist()
    chosen = spread(labels, 7)
    assert chosen == sorted(set(chosen))
    counts = np.bincount([labels[n] for n in chosen], minlength=5)
    assert counts.min() == 1
    assert counts.max() == 2


def test_spread_takes_what_there_is():
    assert spread([0, 0], 4) == [0, 1]
    assert spread([3, 3, 3, 3, 7], 3) == [0, 1, 4]
    assert len(spread(list(range(200)), 4)) == 4


def make_model(**changes):
    torch.manual_seed(0)
    config = ModelConfig(
        num_classes=2,
        image_size=(64, 96),
        view={"scale": 0.25},
        scorer={"name": "conv", "pool": 2},
        selection={"name": "perturbed", "k": 3, "sigma": 0.5},
        extraction={"patch": [20, 16]},
        features={"name": "ats", "width": 8},
    )
    return PatchSelectionModel.from_config(replace(config, **changes))


def make_image(height=64, width=96):
    return torch.randint(256, (3, height, width), generator=torch.Generator().manual_seed(0)).byte()


def test_a_hard_look_is_what_the_model_does_in_evaluation():
    model, image = make_model(), make_image()
    glance = glimpse(model, image, 1, in_training=False)
    output = model.eval()(unit_range(image[None]))
    assert glance.label == 1
    assert glance.boxes.tolist() == output.boxes[0].tolist()
    assert_close(torch.from_numpy(glance.scores).flatten(), output.scores[0])
    assert (glance.weight == np.eye(3)).all()
    padded = np.pad(image.permute(1, 2, 0).numpy(), ((50, 50), (50, 50), (0, 0)))
    for patch, (left, top, right, bottom) in zip(glance.patches, glance.boxes, strict=True):
        assert (patch == padded[top + 50 : bottom + 50, left + 50 : right + 50]).all()


def test_a_soft_look_is_the_blend_of_its_boxes():
    model, image = make_model(), make_image()
    glance = glimpse(model, image, 0, in_training=True, sigma=0.3)
    assert len(glance.boxes) > 3
    assert_close(glance.weight.sum(axis=1), np.ones(3, np.float32))
    assert (glance.weight.max(axis=0) > 0).all()
    assert_blended(glance, image)


def assert_blended(glance, image):
    padded = np.pad(image.permute(1, 2, 0).numpy(), ((50, 50), (50, 50), (0, 0))).astype(float)
    cuts = [padded[top + 50 : bottom + 50, left + 50 : right + 50] for left, top, right, bottom in glance.boxes]
    blend = np.einsum("ks,spqc->kpqc", glance.weight.astype(float), np.stack(cuts))
    assert np.abs(glance.patches - blend).max() < 0.51  # rounded to bytes


@pytest.mark.parametrize(
    "selection",
    [{"name": "sinkhorn", "epsilon": 0.5}, {"name": "softsort", "temperature": 0.2}],
    ids=lambda s: s["name"],
)
def test_a_soft_selection_without_noise_is_shown_soft_too(selection):
    model, image = make_model(selection={**selection, "k": 3}), make_image()
    glance = glimpse(model, image, 0, in_training=True)
    scores = model.eval()(unit_range(image[None])).scores.detach()
    softly = model.selection.train()(scores)
    assert_close(torch.from_numpy(glance.weight), softly.weight[0][:, (softly.weight[0] > 0).any(dim=0)])
    assert glance.weight.max() < 0.9
    assert_blended(glance, image)
    assert (glimpse(model, image, 0, in_training=False).weight == np.eye(3)).all()


def test_a_selection_that_draws_shows_what_it_drew():
    model, image = make_model(selection={"name": "ats", "k": 3}, aggregation={"name": "mean"}), make_image()
    drawn, best = (glimpse(model, image, 0, in_training=mode) for mode in (True, False))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model.eval().selection.train()
        expected = model(unit_range(image[None])).boxes[0]
    assert drawn.boxes.tolist() == expected.tolist() != best.boxes.tolist()
    assert_blended(drawn, image)


def test_a_selection_that_is_sharp_in_training_is_shown_sharp():
    model, image = make_model(selection={"name": "straight_through", "k": 3, "temperature": 0.5}), make_image()
    glances = [glimpse(model, image, 0, in_training=mode) for mode in (True, False)]
    assert np.array_equal(glances[0].boxes, glances[1].boxes)  # those that only get a gradient are not shown
    assert all((glance.weight == np.eye(3)).all() for glance in glances)


def test_less_noise_gives_fewer_boxes():
    model, image = make_model(), make_image()
    counts = [len(glimpse(model, image, 0, in_training=True, sigma=sigma).boxes) for sigma in (0.5, 0.05, 0.0)]
    assert counts[0] > counts[1] > counts[2] == 3


@pytest.mark.parametrize(("in_training", "sigma"), [(True, 0.2), (True, None), (False, 0.2)])
def test_looking_changes_nothing(in_training, sigma):
    """Not in a model that holds batch norm and has some parts in evaluation mode; not even where random numbers are."""
    model, image = make_model(scorer={"name": "conv", "pool": 2, "squeeze_excitation": 2}), make_image()
    model.train()
    model.features.norm.eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    modes, sigma_before, random = [m.training for m in model.modules()], model.selection.sigma, torch.get_rng_state()
    first, second = (glimpse(model, image, 0, in_training=in_training, sigma=sigma) for _ in range(2))
    assert [m.training for m in model.modules()] == modes
    assert model.selection.sigma == sigma_before
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert (first.patches == second.patches).all()


def test_the_model_is_given_back_even_if_looking_fails():
    model = make_model().train()
    model.scorer.layers[0].weight.data.fill_(torch.nan)
    with pytest.raises(ValueError, match="NaN"):
        glimpse(model, make_image(), 0, in_training=True, sigma=0.1)
    assert all(m.training for m in model.modules())
    assert model.selection.sigma == 0.5


def test_large_images_are_shown_small():
    model, image = make_model(), make_image(400, 1600)
    glance = glimpse(model, image, 0, in_training=False)
    assert glance.image.shape == (160, 640, 3)
    assert glance.size == (400, 1600)
    assert glance.boxes.tolist() == model.eval()(unit_range(image[None])).boxes[0].tolist()


def test_a_panel_is_read_as_it_was_written(tmp_path):
    images = make_image(64, 96), make_image(64, 80)
    glances = tuple(glimpse(make_model(), image, n, in_training=True) for n, image in enumerate(images))
    RunFolder(tmp_path).write_panel(Panel(12, 0.75, 0.02, glances))
    read = RunFolder(tmp_path).panel(12)
    assert (read.step, read.progress, read.sigma) == (12, 0.75, 0.02)
    for one, other in zip(read.glances, glances, strict=True):
        assert (one.label, one.size) == (other.label, other.size)
        for name in ("image", "scores", "patches", "boxes", "weight"):
            assert np.array_equal(getattr(one, name), getattr(other, name))
    assert [path.name for path in (tmp_path / "panels").iterdir()] == ["0000012.npz"]


# ---- in a run


@pytest.fixture(scope="module")
def spots(tmp_path_factory) -> Path:
    return make_spots(tmp_path_factory.mktemp("data") / "spots", 40, sizes=(64, 80))


def run_panels(spots, folder, **changes):
    fit(tiny_recipe(spots, **changes), folder, Panels(RunFolder(folder)))
    return folder


@pytest.fixture(scope="module")
def undisturbed(spots, tmp_path_factory) -> Path:
    return run_panels(spots, tmp_path_factory.mktemp("undisturbed"))


def test_a_run_looks_at_first_as_its_seed_says(spots, tmp_path):
    recipe = replace(tiny_recipe(spots, steps=2), warm_up=WarmUp(0))
    fit(recipe, tmp_path, Panels(RunFolder(tmp_path)))
    panel = RunFolder(tmp_path).panel(0)
    again = [glance for _, glance in look(make_task(recipe))]
    assert len(again) == len(panel.glances)
    for glance, expected in zip(again, panel.glances, strict=True):
        np.testing.assert_array_equal(glance.scores, expected.scores)
        np.testing.assert_array_equal(glance.patches, expected.patches)


def panels_of(run):
    return {step: RunFolder(run).panel(step) for step in RunFolder(run).panel_steps()}


def test_a_run_has_its_start_middle_and_end(undisturbed):
    panels = panels_of(undisturbed)
    assert list(panels) == [4, 10, 16]
    assert [panel.progress for panel in panels.values()] == [0, 0.5, 1]
    assert [panel.sigma for panel in panels.values()] == pytest.approx([0.05, 0.025, 0])
    start, _, end = panels.values()
    assert len(start.glances) == 4
    assert [glance.label for glance in start.glances] == [glance.label for glance in end.glances]
    assert {glance.label for glance in end.glances} == {0, 1}
    assert {glance.size for glance in end.glances} == {(64, 64), (80, 80)}
    assert all((glance.weight == np.eye(2)).all() for glance in end.glances)


def test_a_panel_shows_what_validation_sees(spots, tmp_path):
    recipe = tiny_recipe(spots, steps=2)
    recipe = replace(recipe, data=replace(recipe.data, resize=(64, 64), augmentation={"name": "cub", "crop": [40, 48]}))
    fit(recipe, tmp_path, Panels(RunFolder(tmp_path)))
    *_, end = panels_of(tmp_path).values()
    for glance, (index, _) in zip(end.glances, look(make_task(recipe)), strict=True):
        assert glance.size == (40, 48)
        center = make_task(recipe).data["val"][index].image[:, 12:52, 8:56]
        assert np.array_equal(glance.image, center.permute(1, 2, 0))


def test_noise_that_stays_ends_with_the_training(spots, tmp_path):
    *_, end = panels_of(run_panels(spots, tmp_path, sigma_decay="constant", steps=2)).values()
    assert end.sigma == 0.05
    assert all((glance.weight == np.eye(2)).all() for glance in end.glances)


def test_without_noise_too_the_start_is_soft_and_the_end_sharp(spots, tmp_path):
    selection = {"name": "sinkhorn", "k": 2, "epsilon": 0.5}
    model = replace(tiny_recipe(spots).model, selection=selection)
    start, middle, end = panels_of(run_panels(spots, tmp_path, steps=2, model=model)).values()
    assert all(np.isnan(panel.sigma) for panel in (start, middle, end))
    assert all((glance.weight.max(axis=1) < 0.9).all() for panel in (start, middle) for glance in panel.glances)
    assert all((glance.weight == np.eye(2)).all() for glance in end.glances)


def test_tensorboard_has_a_figure_of_each_image_at_each_validation(spots, tmp_path):
    board = TensorBoardLogger(tmp_path, "tensorboard", "")
    fit(tiny_recipe(spots, validate_every=8), tmp_path, Panels(RunFolder(tmp_path), count=2), logger=board)
    events = EventAccumulator(board.log_dir).Reload()
    assert len(events.Tags()["images"]) == 2
    assert all([event.step for event in events.Images(tag)] == [8, 16] for tag in events.Tags()["images"])


@pytest.mark.parametrize("step", [4, 5, 10, 12, 15])
def test_a_stopped_run_ends_with_the_same_panels(step, spots, undisturbed, tmp_path, monkeypatch):
    crash_at(step, monkeypatch)
    with pytest.raises(CrashError):
        run_panels(spots, tmp_path)
    run_panels(spots, tmp_path)
    expected, found = ({path.name: path for path in (run / "panels").iterdir()} for run in (undisturbed, tmp_path))
    assert found.keys() == expected.keys()
    for name in found:
        one, other = np.load(found[name]), np.load(expected[name])
        assert all(np.array_equal(one[key], other[key]) for key in other.files)


def test_panels_of_a_future_that_did_not_come_are_removed(spots, tmp_path):
    (tmp_path / "panels").mkdir()
    for step in (3, 16, 99):
        (tmp_path / "panels" / f"{step:07d}.npz").write_bytes(b"from another run")
    assert list(panels_of(run_panels(spots, tmp_path))) == [4, 10, 16]


def test_a_system_that_selects_nothing_has_no_panels(spots, tmp_path):
    recipe = tiny_recipe(spots, steps=2)
    run_panels(spots, tmp_path, steps=2, model=replace(recipe.model, system="cnn"), warm_up=WarmUp())
    assert not (tmp_path / "panels").exists()
