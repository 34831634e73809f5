"""A step of training."""

from dataclasses import replace

import pytest
from tiny import make_spots, tiny_recipe

from saccade.data.dataset import collate
from saccade.training.recipe import WarmUp
from saccade.training.run import make_task


def test_crops_of_images_of_different_sizes_are_refused(tmp_path):
    recipe = tiny_recipe(make_spots(tmp_path / "spots", 20, sizes=(64, 80)), warm_up=WarmUp(steps=0))
    crop = {"name": "cub", "crop": [48, 48]}
    task = make_task(replace(recipe, data=replace(recipe.data, augmentation=crop)))
    batch = collate([task.data["train"][number] for number in range(4)])
    with pytest.raises(ValueError, match=r"crops, .* one size with preparation\.resize"):
        task.training_step(batch, 0)
