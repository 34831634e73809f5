"""A run folder with an untrained model: what it says is as good to compare as any."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tiny import tiny_recipe

from saccade.building import build_model
from saccade.training.batches import open_records, open_split
from saccade.training.phases import Training
from saccade.training.recipe import dump_recipe
from saccade.training.run import model_config


def make_tiny_run(
    folder: Path, images: Path, *, data: dict[str, Any] | None = None, batch: int = 4, **stages: Any
) -> Path:
    """A recipe and a model in `folder`, for the data set `images`; options of the data and stages may be changed."""
    recipe = tiny_recipe(images, training=Training(), batch=batch)
    recipe = replace(recipe, data=replace(recipe.data, **data or {}), model=replace(recipe.model, **stages))
    records = open_records(recipe.data, seed=0)
    torch.manual_seed(0)
    images_of_training = open_split(records, "train", recipe.data, recipe.model.preparation)
    model = build_model(model_config(recipe, images_of_training))
    model.save_pretrained(folder / "best")
    (folder / "recipe.yaml").write_text(dump_recipe(recipe))
    return folder
