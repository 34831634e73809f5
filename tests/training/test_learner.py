"""What a step learns, and which trainings a model can have."""

from dataclasses import replace

import pytest
import torch
from tiny import make_spots, tiny_recipe
from tiny_fit import make_parts
from torch import nn

from saccade.data.dataset import collate
from saccade.preparation import Preparation
from saccade.training.batches import targets
from saccade.training.learner import Learner
from saccade.training.phases import LabelFreeOptions, Training


@pytest.fixture(scope="module")
def spots(tmp_path_factory):
    return make_spots(tmp_path_factory.mktemp("data") / "spots", 20)


def test_crops_are_taken_within_each_of_images_of_different_sizes(tmp_path):
    recipe = tiny_recipe(make_spots(tmp_path / "spots", 20, sizes=(64, 80)), training=Training())
    stages = replace(recipe.model, preparation=Preparation(crop=(48, 48)))
    learner, data = make_parts(replace(recipe, model=stages, data=replace(recipe.data, augmentation={"name": "cub"})))
    batch = collate([data["train"][number] for number in range(4)])
    assert batch.image.shape[-2:] == (80, 80)
    image, size = learner._augmented(batch)
    assert image.shape[-2:] == (48, 48)
    assert size is None  # no padding is left


@pytest.mark.parametrize(
    ("step", "trained"),
    [(0, "scorer"), (4, "features"), (8, "features"), (15, "both")],
    ids=["label-free", "by scores", "by scores, as they come", "soft"],
)
def test_each_phase_trains_what_it_should(step, trained, spots):
    training = Training("guided_by_scores", LabelFreeOptions(4), loss={"mixture_coefficient": 0.0}, evenly=0.5)
    learner, data = make_parts(tiny_recipe(spots, training=training))
    torch.manual_seed(0)
    learner(collate([data["train"][number] for number in range(4)]), step).loss.backward()
    reached = {
        name
        for name in ("scorer", "features")
        if any(p.grad is not None and p.grad.any() for p in getattr(learner.model, name).parameters())
    }
    assert reached == ({"scorer", "features"} if trained == "both" else {trained})


def test_sigma_falls_in_a_line_from_the_first_label_or_stays(spots):
    learner, _ = make_parts(tiny_recipe(spots))
    assert [learner.sigma(step) for step in (0, 4, 10, 16)] == pytest.approx([0.05, 0.05, 0.025, 0.0])
    steady, _ = make_parts(tiny_recipe(spots, training=Training(sigma="constant")))
    assert [steady.sigma(step) for step in (0, 6, 12)] == [0.05] * 3


def test_a_system_without_a_scorer_has_no_label_free_steps(spots):
    recipe = tiny_recipe(spots)
    with pytest.raises(ValueError, match=r"system cnn has no scorer .* label_free: set training\.name to plain"):
        make_parts(replace(recipe, model=replace(recipe.model, system="cnn")))


def test_where_all_patches_are_looked_at_there_is_nothing_to_guide(spots):
    recipe = tiny_recipe(spots, training=Training("guided_by_detail"))
    with pytest.raises(ValueError, match=r"nothing to guide: set training\.guided to 0"):
        make_parts(replace(recipe, model=replace(recipe.model, selection={"name": "exhaustive"})))


def test_an_option_that_the_loss_does_not_have_is_named(spots):
    with pytest.raises(ValueError, match="has no option 'entropy_coeficient': it takes entropy_coefficient"):
        make_parts(tiny_recipe(spots, training=Training(loss={"entropy_coeficient": 0.1})))


@pytest.mark.parametrize("frozen", [True, False])
def test_after_a_frozen_start_the_statistics_stay_that_its_heads_were_fitted_to(frozen, spots):
    recipe = tiny_recipe(spots, training=Training("tuned", frozen=frozen))
    learner, data = make_parts(recipe)
    learner = Learner(learner.model.train(), recipe, data["train"])  # as it is after weights were loaded
    norm = next(module for module in learner.modules() if isinstance(module, nn.BatchNorm2d))
    before = norm.running_mean.clone()
    learner(collate([data["train"][number] for number in range(4)]), 0)
    assert norm.running_mean.equal(before) == frozen


def test_classes_weigh_the_same_as_a_whole(spots):
    _, data = make_parts(tiny_recipe(spots))
    train = data["train"]
    kept = [record for number, record in enumerate(train.records.records) if record.label == "along" or number < 2]
    train.records = train.records._replace(records=tuple(kept))
    counts = torch.tensor([float(n) for n in train.records.counts()["train"].values()])
    weight = train.task.class_weight(targets(train))
    assert (weight * counts).tolist() == pytest.approx([len(kept) / 2] * 2)
