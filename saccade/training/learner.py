"""What is learned from a batch at a step: the loss of the step's phase, for any system.

A `Learner` is a module around the model so that several processes share the gradient of everything a step does, not
only of a call of the model. A step is a function of (seed, step, process): the loop seeds it, and here σ and the way
patches are chosen depend on nothing but the step.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.data.augment import Pictures, build_augmentation
from saccade.data.dataset import Batch, ImageDataset
from saccade.features.timm_backbone import Backbone
from saccade.images import Sources, unit_range
from saccade.model import PatchSelectionModel
from saccade.options import check_options, read_options
from saccade.selection import linear_decay
from saccade.system import System
from saccade.training.batches import targets
from saccade.training.choosing import CHOOSERS, Images, Sizes, detail_of
from saccade.training.label_free import label_free_loss
from saccade.training.phases import Phase
from saccade.training.recipe import Recipe


class Learned(NamedTuple):
    """The loss of a batch and the share of right answers; None in label-free steps, and where answers are numbers."""

    loss: Float[Tensor, ""]
    accuracy: Float[Tensor, ""] | None = None


class Learner(nn.Module):
    """Learns as `recipe` says from batches of `train`."""

    def __init__(self, model: System, recipe: Recipe, train: ImageDataset):
        super().__init__()
        _check_model(model, recipe)
        if recipe.model.preparation.stream:
            _check_streaming(recipe)
        self.model: Any = model.to(memory_format=torch.channels_last)
        self.recipe, self.plan = recipe, recipe.plan
        self.augmentation = build_augmentation(recipe.data.augmentation, crop=recipe.model.preparation.crop)
        self.full_sigma: float | None = self.model.selection and self.model.selection.sigma
        weight = train.task.class_weight(targets(train)) if recipe.class_weights else None
        self.register_buffer("class_weight", weight, persistent=False)
        if recipe.training.frozen:
            for module in model.modules():
                if isinstance(module, Backbone):
                    module.hold_early_layers()
        self.train()

    def train(self, mode: bool = True) -> "Learner":
        """Heads of a frozen start were fitted to the statistics that its networks came with: those stay."""
        super().train(mode)
        if self.recipe.training.frozen:
            for module in self.modules():
                if isinstance(module, nn.modules.batchnorm._BatchNorm):
                    module.eval()
        return self

    @property
    def chooses(self) -> bool:
        """Whether the model prefers some places to others."""
        return self.model.selection is not None and self.model.selection.k is not None

    def sigma(self, step: int) -> float | None:
        """The noise of the selection at a step; None where there is none."""
        if self.full_sigma is None or self.plan.at(step).sigma == "constant":
            return self.full_sigma
        return linear_decay(self.full_sigma, step=max(self.plan.labeled_step(step), 0), total_steps=self.plan.labeled)

    def phase(self, step: int) -> Phase:
        """The phase of a step; a plain network, which a frozen start may have found better, has nothing to choose."""
        phase = self.plan.at(step)
        return phase if self.model.selection is not None else replace(phase, choose="model", loss={})

    def forward(self, batch: Batch, step: int) -> Learned:
        """What the batch teaches at `step`."""
        if self.full_sigma is not None:
            self.model.selection.sigma = self.sigma(step)
        phase = self.phase(step)
        image, size = self._augmented(batch)
        if not phase.labeled:
            return Learned(self._label_free(image, size, phase))
        choice = {} if phase.choose == "model" else {"select": CHOOSERS[phase.choose](self.model, image, size)}
        output = self.model(image, size, **choice)
        loss = self.model.loss(output, batch.label, class_weight=self.class_weight, **phase.loss)
        right = self.model.task.right(output.logits, batch.label)
        return Learned(loss, right if right is None else right.mean())

    def _augmented(self, batch: Batch) -> tuple[Images, Sizes]:
        """Floats, or sources that are read in parts, and the true sizes of images that are padded."""
        image = unit_range(batch.image)
        if isinstance(image, Sources):
            return image, None
        pictures = self.augmentation(Pictures(image, batch.boxes, batch.size))
        return pictures.image, pictures.size if pictures.padded else None

    def _label_free(self, image: Images, size: Sizes, phase: Phase) -> Float[Tensor, ""]:
        view = self.model.view(self.model.with_positions(image, size))
        return label_free_loss(self.model.scorer(view).scores, detail_of(self.model, image, size), **phase.loss)


def _check_model(model: System, recipe: Recipe) -> None:
    if recipe.training.frozen and model.selection is None:
        return
    phases = [span.phase for span in recipe.plan.spans]
    special = [phase for phase in phases if phase.guided or not phase.labeled]
    if special and not isinstance(model, PatchSelectionModel):
        raise ValueError(
            f"the system {model.config.system} has no scorer of the view, and the training has the phase "
            f"{special[0].name}: set training.name to plain, or training.label_free.steps and training.guided to 0"
        )
    if any(phase.guided for phase in phases) and isinstance(model, PatchSelectionModel) and model.selection.k is None:
        raise ValueError("all patches are selected, there is nothing to guide: set training.guided to 0")
    for phase in phases:
        loss = read_options(model.loss if phase.labeled else label_free_loss)
        options = [option for option in loss if not option.required and option.name != "class_weight"]
        check_options(f"the loss of the phase {phase.name}", options, phase.loss)


def _check_streaming(recipe: Recipe) -> None:
    if (system := recipe.model.system) != "patch_selection":
        raise ValueError(
            f"the system {system} needs whole images: set model.preparation.stream to false, or use patch_selection"
        )
    if (name := recipe.data.augmentation["name"]) != "none":
        raise ValueError(
            f"the augmentation {name} needs the pixels of whole images, and preparation.stream reads parts: set "
            "data.augmentation to {name: none}"
        )
