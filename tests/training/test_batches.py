import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny import make_spots, tiny_recipe

from saccade.data import load
from saccade.data.records import DataError
from saccade.preparation import Preparation
from saccade.training.batches import StepSampler, evaluation_loader, open_records, open_split, training_loader
from saccade.training.phases import Training
from saccade.training.recipe import DataOptions


def steps_of(first: int = 0, **options) -> list[list[int]]:
    return list(StepSampler(10, batch=4, steps=15, seed=3, first=first, **options))


def test_every_image_comes_once_in_every_round():
    dealt = [image for step in steps_of() for image in step]
    assert [Counter(dealt[start : start + 10]) for start in range(0, 60, 10)] == [Counter(range(10))] * 6
    assert dealt[:10] != dealt[10:20]


@pytest.mark.parametrize("first", [1, 7, 14, 15])
def test_resuming_at_a_step_gives_the_rest_of_the_same_batches(first):
    assert steps_of(first) == steps_of()[first:]


def test_processes_share_each_batch():
    shares = [steps_of(rank=rank, world=2) for rank in range(2)]
    for whole, *parts in zip(steps_of(), *shares, strict=True):
        assert sorted(whole) == sorted(image for part in parts for image in part)


def test_evenly_dealt_batches_hold_as_many_images_of_each_class_and_deal_each_class_in_rounds():
    groups = [[0, 1, 2, 3, 4, 5, 6], [7, 8, 9]]
    steps = steps_of(groups=groups)
    assert all(sum(image in groups[1] for image in step) == 2 for step in steps)
    rare = [image for step in steps for image in step if image in groups[1]]
    assert [Counter(rare[start : start + 3]) for start in range(0, 30, 3)] == [Counter(groups[1])] * 10
    assert steps_of(7, groups=groups) == steps[7:]


def test_each_process_gets_images_of_all_classes_that_are_dealt_in_turn():
    groups = [[0, 1, 2, 3, 4, 5, 6], [7, 8, 9]]
    for rank in range(2):
        assert all(
            sum(image in groups[1] for image in step) == 1 for step in steps_of(groups=groups, rank=rank, world=2)
        )


def test_batches_that_are_dealt_evenly_at_first_go_on_with_rounds_of_all_images():
    groups = [[0, 1, 2, 3, 4, 5, 6], [7, 8, 9]]
    steps = steps_of(groups=groups, evenly=lambda step: step < 5)
    assert steps[:5] == steps_of(groups=groups)[:5]
    rest = [image for step in steps[5:] for image in step]
    assert Counter(rest[:10]) == Counter(range(10))
    assert steps_of(7, groups=groups, evenly=lambda step: step < 5) == steps[7:]


def test_another_seed_deals_otherwise():
    assert list(StepSampler(10, batch=4, steps=3, seed=4)) != steps_of()[:3]


def test_an_evenly_dealt_training_shows_rare_classes_as_often(tmp_path):
    recipe = replace(tiny_recipe(make_spots(tmp_path / "spots", 40)), training=Training(evenly=True), batch=8)
    train = open_split(load(recipe.data.path).split("train"), "train", recipe.data, recipe.model.preparation)
    rarest, *others = sorted(Counter(r.label for r in train.records.records))
    kept = [r for r in train.records.records if r.label == rarest][:2]
    kept += [r for r in train.records.records if r.label != rarest]
    train.records = train.records._replace(records=tuple(kept))
    batch = next(iter(training_loader(train, recipe, first=0)))
    assert set(Counter(batch.label.tolist()).values()) == {8 // (1 + len(others))}


@pytest.mark.parametrize("world", [1, 2, 3, 20])
def test_each_evaluation_image_is_read_exactly_once(world, tmp_path):
    recipe = tiny_recipe(make_spots(tmp_path / "spots", 70))
    dataset = open_split(load(recipe.data.path), "val", recipe.data, recipe.model.preparation)  # 14 images
    read = [
        int(index)
        for rank in range(world)
        for batch in evaluation_loader(dataset, recipe, rank=rank, world=world)
        for index in batch.index
    ]
    assert sorted(read) == list(range(len(dataset)))


def test_batches_are_the_sampled_images(tmp_path):
    recipe = tiny_recipe(make_spots(tmp_path / "spots", 20))
    dataset = open_split(load(recipe.data.path), "train", recipe.data, recipe.model.preparation)
    batches = list(training_loader(dataset, recipe, first=14))
    assert len(batches) == 2  # of 4 + 12 steps
    for batch in batches:
        for image, index in zip(batch.image, batch.index, strict=True):
            assert torch.equal(image, dataset[int(index)].image)


@pytest.mark.parametrize(
    ("accelerator", "gpu", "pinned"),
    [("auto", True, True), ("gpu", True, True), ("cpu", True, False), ("auto", False, False), ("gpu", False, False)],
)
def test_memory_is_pinned_where_batches_go_to_a_gpu(accelerator, gpu, pinned, tmp_path, monkeypatch):
    recipe = replace(tiny_recipe(make_spots(tmp_path / "spots", 20)), accelerator=accelerator)
    monkeypatch.setattr("torch.cuda.is_available", lambda: gpu)
    dataset = open_split(load(recipe.data.path), "val", recipe.data, recipe.model.preparation)
    assert evaluation_loader(dataset, recipe).pin_memory == pinned


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
        open_split(load(data), "test", DataOptions(), Preparation())


SIGNALLED = """
import os, signal, sys
from pathlib import Path
from tiny import tiny_recipe
from saccade.data import load
from saccade.training.batches import open_split, training_loader
from dataclasses import replace
recipe = tiny_recipe(Path(sys.argv[1]))
recipe = replace(recipe, data=replace(recipe.data, workers=1))
train = open_split(load(recipe.data.path), "train", recipe.data, recipe.model.preparation)
batches = iter(training_loader(train, recipe, first=8))
next(batches)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: None)
    os.killpg(0, number)
print("batches", 1 + len(list(batches)))
"""


def test_what_asks_a_job_to_stop_does_not_end_the_processes_that_read_images(tmp_path):
    words = [sys.executable, "-c", SIGNALLED, str(make_spots(tmp_path / "spots", 20))]
    here = str(Path(__file__).parents[1])
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=120, start_new_session=True, cwd=here, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "batches 8\n"  # of 4 + 12 steps, from the ninth on; and the process ended
