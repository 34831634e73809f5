from collections import Counter

import pytest
import torch
from tiny import make_spots, tiny_recipe

from saccade.datasets import load
from saccade.datasets.records import DataError
from saccade.training.data import StepSampler, evaluation_loader, open_records, open_split, training_loader
from saccade.training.recipe import DataOptions


def steps_of(first: int = 0, **options) -> list[list[int]]:
    return list(StepSampler(10, batch=4, steps=15, seed=3, now=lambda: first, **options))


def test_every_image_comes_once_in_every_round():
    dealt = [image for step in steps_of() for image in step]
    assert [Counter(dealt[start : start + 10]) for start in range(0, 60, 10)] == [Counter(range(10))] * 6
    assert dealt[:10] != dealt[10:20]


@pytest.mark.parametrize("first", [1, 7, 14, 15])
def test_going_on_at_a_step_gives_the_rest_of_the_same_batches(first):
    assert steps_of(first) == steps_of()[first:]


def test_processes_share_each_batch():
    shares = [steps_of(rank=rank, world=2) for rank in range(2)]
    for whole, *parts in zip(steps_of(), *shares, strict=True):
        assert sorted(whole) == sorted(image for part in parts for image in part)


def test_another_seed_deals_otherwise():
    assert list(StepSampler(10, batch=4, steps=3, seed=4, now=lambda: 0)) != steps_of()[:3]


@pytest.mark.parametrize("world", [1, 2, 3, 20])
def test_each_evaluation_image_is_read_exactly_once(world, tmp_path):
    recipe = tiny_recipe(make_spots(tmp_path / "spots", 70))
    dataset = open_split(load(recipe.data.path), "val", recipe.data)  # 14 images
    read = [
        int(index)
        for rank in range(world)
        for batch in evaluation_loader(dataset, recipe, rank=rank, world=world)
        for index in batch.index
    ]
    assert sorted(read) == list(range(len(dataset)))


def test_batches_are_the_sampled_images(tmp_path):
    recipe = tiny_recipe(make_spots(tmp_path / "spots", 20))
    dataset = open_split(load(recipe.data.path), "train", recipe.data)
    batches = list(training_loader(dataset, recipe, now=lambda: 14))
    assert len(batches) == 2  # of 4 + 12 steps
    for batch in batches:
        for image, index in zip(batch.image, batch.index, strict=True):
            assert torch.equal(image, dataset[int(index)].image)


def test_a_recipe_can_make_its_own_data(tmp_path):
    options = DataOptions(
        path=str(tmp_path / "street"), generate={"name": "signs", "count": 20, "size": [120, 160], "sign_px": [16, 20]}
    )
    assert len(open_records(options, seed=0).records) == 20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (DataOptions(), "no data"),
        (DataOptions(path="x", generate={"count": 3}), "no name"),
        (DataOptions(path="nowhere"), "no such file or folder"),
    ],
)
def test_data_that_cannot_be_opened_is_told(options, message):
    with pytest.raises(DataError, match=message):
        open_records(options, seed=0)


def test_a_split_without_images_is_told(tmp_path):
    data = make_spots(tmp_path / "spots", 20)
    (data / "labels.csv").write_text((data / "labels.csv").read_text().replace(",test,", ",val,"))
    with pytest.raises(DataError, match=r"no images in the split 'test'; there are 12 in train, 8 in val"):
        open_split(load(data), "test", DataOptions())
