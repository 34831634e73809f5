"""A recipe at its full size without its data: the steps of training, on random images of the real shape.

What a step costs depends on shapes, not on what the pixels show; of a soft selection it also depends on how even the
scores are, and those of a new scorer are as even as they ever get.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from lightning.fabric import seed_everything
from torch import Tensor

from saccade.building import build_model
from saccade.config import ModelConfig
from saccade.data.dataset import Batch, ImageDataset, collate
from saccade.data.records import Record, Records
from saccade.data.sample import Sample
from saccade.reproduce.clock import clock_now
from saccade.training.devices import make_fabric
from saccade.training.learner import Learner
from saccade.training.optimizers import clip_gradients, make_optimizer, prepare_step
from saccade.training.recipe import Recipe


class Shape(NamedTuple):
    """Height and width of a published set's images, prepared but not yet cropped, and its number of classes."""

    size: tuple[int, int]
    classes: int


# By the last folder of the recipes' data.path.
SHAPES = {"swedish": Shape((960, 1280), 4), "billiard": Shape((1000, 1000), 9), "cub": Shape((600, 600), 200)}


class StandIn:
    """A model ready to learn as `recipe` says, and batches of noise for it; weights are random."""

    def __init__(self, recipe: Recipe, shape: Shape):
        seed_everything(recipe.seed, verbose=False)
        self.recipe, self.shape = replace(recipe, accelerator="auto", devices=1, nodes=1), shape
        names = tuple(f"{number:03d}" for number in range(shape.classes))
        records = Records(Path(), names, tuple(Record(Path(f"{name}.jpg"), name, "train") for name in names))
        preparation = recipe.model.preparation
        config = ModelConfig(
            **vars(recipe.model),
            num_classes=shape.classes,
            image_size=preparation.seen_size(shape.size),
            classes=names,
        )
        # Nothing reads these records' files: batches are made up.
        self.learner = Learner(build_model(config), self.recipe, ImageDataset(records, preparation=preparation))
        self.fabric = make_fabric(self.recipe)
        optimizer = make_optimizer(self.learner.model, self.recipe)
        self.module, self.optimizer = self.fabric.setup(self.learner, optimizer)

    def batch(self, count: int) -> Batch:
        """`count` images of noise."""
        draw = torch.Generator().manual_seed(0)
        images = torch.randint(256, (count, 3, *self.shape.size), dtype=torch.uint8, generator=draw)
        nothing = torch.zeros(0, 4, dtype=torch.long)
        samples = [
            Sample(image, place % self.shape.classes, nothing, place, nothing[:, 0])
            for place, image in enumerate(images)
        ]
        return self.fabric.to_device(collate(samples))

    def step(self, batch: Batch, step: int = 0) -> float:
        """One step of training, as the loop takes it; its seconds."""
        start = clock_now()
        prepare_step(self.optimizer.optimizer, self.recipe, step)
        learned = self.module(batch, step)
        self.fabric.backward(learned.loss)
        clip_gradients(self.optimizer.optimizer, self.recipe)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return clock_now() - start

    def kept_bytes(self, batch: Batch) -> int:
        """What a step keeps for its backward pass beside the weights; the weights stay as they are."""
        weights = {parameter.untyped_storage().data_ptr() for parameter in self.learner.parameters()}
        kept: dict[int, int] = {}

        def keep(tensor: Tensor) -> Any:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in weights:
                kept[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            self.module(batch, 0)
        return sum(kept.values())
