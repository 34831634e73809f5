"""Panels show what the model looks at, taking them changes nothing, and a stopped run has all of them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tiny import make_spots, tiny_recipe
from tiny_fit import CrashError, crash_at, fit, make_parts
from torch.testing import assert_close

from saccade import ModelConfig, PatchSelectionModel
from saccade.images import unit_range
from saccade.preparation import Preparation
from saccade.runs import RunFolder
from saccade.training.observers.panels import Panels, glimpse, spread
from saccade.training.phases import Training


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


def select(model, image, *, sigma=None):
    """What the selection gives in training mode, and the boxes of it that are used: by hand, as a panel shows it."""
    kept = model.selection.sigma if sigma is not None else None
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        model.eval().selection.train()
        if sigma is not None:
            model.selection.sigma = sigma
        output = model(unit_range(image[None]))
        if sigma is not None:
            model.selection.sigma = kept
    used = (output.selection.weight[0] > 0).any(dim=0)
    return output.selection.weight[0][:, used].numpy(), output.boxes[0][used].numpy()


def cut(image, boxes):
    padded = np.pad(image.permute(1, 2, 0).numpy(), ((50, 50), (50, 50), (0, 0)))
    return np.stack([padded[top + 50 : bottom + 50, left + 50 : right + 50] for left, top, right, bottom in boxes])


def assert_blended(look, image, weight, boxes):
    np.testing.assert_array_equal(look.boxes, boxes)
    np.testing.assert_allclose(look.strength, weight.sum(axis=0), atol=1e-6)
    blend = np.einsum("ks,spqc->kpqc", weight.astype(float), cut(image, boxes).astype(float))
    assert np.abs(look.crops - blend).max() < 0.51  # rounded to bytes
    assert len(look.box_scores) == 0


def assert_sharp(look, image):
    assert (look.strength == 1).all()
    assert len(look.box_scores) == len(look.boxes)
    np.testing.assert_array_equal(look.crops, cut(image, look.boxes))


def test_a_hard_look_is_what_the_model_does_in_evaluation():
    model, image = make_model(), make_image()
    look = glimpse(model, image, in_training=False)
    output = model.eval()(unit_range(image[None]))
    assert sorted(look.boxes.tolist()) == sorted(output.boxes[0].tolist())
    assert_close(torch.from_numpy(look.scores).flatten(), output.scores[0])
    assert_sharp(look, image)


def test_a_soft_look_is_the_blend_of_its_boxes():
    model, image = make_model(), make_image()
    look = glimpse(model, image, in_training=True, sigma=0.3)
    assert len(look.boxes) > 3
    assert look.strength.sum() == pytest.approx(3, abs=1e-4)  # each patch is one whole
    assert_blended(look, image, *select(model, image, sigma=0.3))


@pytest.mark.parametrize(
    "selection",
    [{"name": "sinkhorn", "epsilon": 0.5}, {"name": "softsort", "temperature": 0.2}],
    ids=lambda s: s["name"],
)
def test_a_soft_selection_without_noise_is_shown_soft_too(selection):
    model, image = make_model(selection={**selection, "k": 3}), make_image()
    look = glimpse(model, image, in_training=True)
    weight, boxes = select(model, image)
    assert weight.max() < 0.9
    assert_blended(look, image, weight, boxes)
    assert_sharp(glimpse(model, image, in_training=False), image)


def test_a_selection_that_draws_shows_what_it_drew():
    model, image = make_model(selection={"name": "ats", "k": 3}, aggregation={"name": "mean"}), make_image()
    drawn, best = (glimpse(model, image, in_training=mode) for mode in (True, False))
    _, boxes = select(model, image)
    assert sorted(drawn.boxes.tolist()) == sorted(boxes.tolist()) != sorted(best.boxes.tolist())
    np.testing.assert_array_equal(drawn.crops, cut(image, drawn.boxes))


def test_a_selection_that_is_sharp_in_training_is_shown_sharp():
    model, image = make_model(selection={"name": "straight_through", "k": 3, "temperature": 0.5}), make_image()
    looks = [glimpse(model, image, in_training=mode) for mode in (True, False)]
    assert sorted(looks[0].boxes.tolist()) == sorted(looks[1].boxes.tolist())  # without those that only get a gradient
    assert all((look.strength == 1).all() for look in looks)


def test_less_noise_gives_fewer_boxes():
    model, image = make_model(), make_image()
    counts = [len(glimpse(model, image, in_training=True, sigma=sigma).boxes) for sigma in (0.5, 0.05, 0.0)]
    assert counts[0] > counts[1] > counts[2] == 3


@pytest.mark.parametrize(("in_training", "sigma"), [(True, 0.2), (True, None), (False, 0.2)])
def test_looking_changes_nothing(in_training, sigma):
    """Not in a model that holds batch norm and has some parts in evaluation mode; not even where random numbers are."""
    model, image = make_model(scorer={"name": "conv", "pool": 2, "squeeze_excitation": 2}), make_image()
    model.train()
    model.features.norm.eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    modes, sigma_before, random = [m.training for m in model.modules()], model.selection.sigma, torch.get_rng_state()
    first, second = (glimpse(model, image, in_training=in_training, sigma=sigma) for _ in range(2))
    assert [m.training for m in model.modules()] == modes
    assert model.selection.sigma == sigma_before
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert (first.crops == second.crops).all()


def test_the_model_is_given_back_even_if_looking_fails():
    model = make_model().train()
    model.scorer.layers[0].weight.data.fill_(torch.nan)
    with pytest.raises(ValueError, match="NaN"):
        glimpse(model, make_image(), in_training=True, sigma=0.1)
    assert all(m.training for m in model.modules())
    assert model.selection.sigma == 0.5


def test_large_images_are_shown_small():
    model, image = make_model(), make_image(400, 1600)
    look = glimpse(model, image, in_training=False)
    assert look.picture.shape == (160, 640, 3)
    assert look.size == (400, 1600)
    assert sorted(look.boxes.tolist()) == sorted(model.eval()(unit_range(image[None])).boxes[0].tolist())


# ---- in a run


@pytest.fixture(scope="module")
def spots(tmp_path_factory) -> Path:
    return make_spots(tmp_path_factory.mktemp("data") / "spots", 40, sizes=(64, 80))


def run_panels(spots, folder, **changes):
    fit(tiny_recipe(spots, **changes), folder)
    return folder


@pytest.fixture(scope="module")
def undisturbed(spots, tmp_path_factory) -> Path:
    return run_panels(spots, tmp_path_factory.mktemp("undisturbed"))


def test_a_run_looks_at_first_as_its_seed_says(spots, tmp_path):
    recipe = tiny_recipe(spots, steps=2, training=Training())
    fit(recipe, tmp_path / "run")
    learner, data = make_parts(recipe)
    again = RunFolder(tmp_path / "again")
    Panels(again, learner, data["val"]).before(0)
    for each, expected in zip(again.panel(0).looks, RunFolder(tmp_path / "run").panel(0).looks, strict=True):
        np.testing.assert_array_equal(each.scores, expected.scores)
        np.testing.assert_array_equal(each.crops, expected.crops)


def panels_of(run):
    return {step: RunFolder(run).panel(step) for step in RunFolder(run).panel_steps()}


def test_a_run_has_its_start_middle_and_end(undisturbed):
    panels = panels_of(undisturbed)
    assert list(panels) == [4, 10, 16]
    assert [panel.progress for panel in panels.values()] == [0, 0.5, 1]
    assert [panel.sigma for panel in panels.values()] == pytest.approx([0.05, 0.025, 0])
    start, _, end = panels.values()
    assert len(start.looks) == 4
    for one, other in zip(start.looks, end.looks, strict=True):
        np.testing.assert_array_equal(one.picture, other.picture)
    assert {each.size for each in end.looks} == {(64, 64), (80, 80)}
    assert all(len(each.boxes) == len(each.box_scores) == 2 for each in end.looks)


def test_a_panel_shows_what_validation_sees(spots, tmp_path):
    recipe = tiny_recipe(spots, steps=2)
    stages = replace(recipe.model, preparation=Preparation(resize=(64, 64), crop=(40, 48)))
    recipe = replace(recipe, model=stages, data=replace(recipe.data, augmentation={"name": "cub"}))
    fit(recipe, tmp_path)
    *_, end = panels_of(tmp_path).values()
    val = make_parts(recipe)[1]["val"]
    labels = [val.records.classes.index(record.label) for record in val.records.records]
    for each, index in zip(end.looks, spread(labels, 4), strict=True):
        assert each.size == (40, 48)
        assert np.array_equal(each.picture, val[index].image[:, 12:52, 8:56].permute(1, 2, 0))


def test_noise_that_stays_ends_with_the_training(spots, tmp_path):
    *_, end = panels_of(run_panels(spots, tmp_path, training=Training(sigma="constant"), steps=2)).values()
    assert end.sigma == 0.05
    assert all(len(each.boxes) == len(each.box_scores) == 2 for each in end.looks)


def test_without_noise_too_the_start_is_soft_and_the_end_sharp(spots, tmp_path):
    selection = {"name": "sinkhorn", "k": 2, "epsilon": 0.5}
    model = replace(tiny_recipe(spots).model, selection=selection)
    start, middle, end = panels_of(run_panels(spots, tmp_path, steps=2, model=model)).values()
    assert all(np.isnan(panel.sigma) for panel in (start, middle, end))
    assert all(each.strength.max() < 0.9 for panel in (start, middle) for each in panel.looks)
    assert all(len(each.boxes) == len(each.box_scores) == 2 for each in end.looks)


def test_tensorboard_has_a_figure_of_each_image_at_each_validation(spots, tmp_path):
    fit(tiny_recipe(spots, validate_every=8), tmp_path)
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert len(events.Tags()["images"]) == 4
    assert all([event.step for event in events.Images(tag)] == [8, 16] for tag in events.Tags()["images"])
    assert {"train/loss", "lr", "lr_scorer", "sigma", "val/accuracy"} <= set(events.Tags()["scalars"])


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
    run_panels(spots, tmp_path, steps=2, model=replace(recipe.model, system="cnn"), training=Training())
    assert not (tmp_path / "panels").exists()
