"""How the selection sharpens: the same few validation images at the start, in the middle and at the end of training.

Until the end a panel shows what the selection gives in training mode: blends of many candidates where it is soft, the
drawn ones where it samples. At the end it shows what evaluation sees.

TensorBoard gets the same as figures after every validation.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, UInt8
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.trainer.states import TrainerFn
from torch import Tensor

from saccade.data.dataset import batch_of_one, unit_range
from saccade.images import ImageSource
from saccade.module_modes import evaluating
from saccade.report.look import chart, extent, glance_look
from saccade.report.overlay import overlay
from saccade.runs import RunFolder
from saccade.runs.training_panels import Glance, Panel

SHOWN = 4  # images in a panel
SHOWN_PX = 640  # longest side of each


def spread(labels: Sequence[int], count: int) -> list[int]:
    """Up to `count` images, as many classes as possible, the first of each: ascending.

    >>> spread([0, 0, 0, 1, 1, 2], 4)
    [0, 1, 3, 5]
    >>> spread([0, 1, 2, 3, 4], 2)  # more classes than images: from all over them
    [0, 4]
    """
    members: dict[int, list[int]] = {label: [] for label in sorted(set(labels))}
    for number, label in enumerate(labels):
        members[label].append(number)
    classes = list(members)
    if len(classes) > count:
        classes = [classes[round(place)] for place in np.linspace(0, len(classes) - 1, count)]
    rounds = [members[label][turn] for turn in range(count) for label in classes if turn < len(members[label])]
    return sorted(rounds[:count])


@torch.no_grad()
def glimpse(
    model: Any,
    image: UInt8[Tensor, "3 H W"] | ImageSource,
    label: int,
    *,
    in_training: bool,
    sigma: float | None = None,
) -> Glance:
    """How `model` looks at `image`, its selection being in training mode or in evaluation mode.

    The model and the state of randomness stay as they are, and the same model gives the same answer.

    sigma: for a selection with noise, how much of it instead of what it has at the moment.
    """
    parameter = next(model.parameters())
    pixels = unit_range(batch_of_one(image)).to(parameter.device, parameter.dtype)
    size = (pixels.shape[-2], pixels.shape[-1])
    grid = model.grid(size, parameter.device)
    with _borrowed(model, in_training, sigma):
        output = model(pixels)
        selection = output.selection
        patches = model.extraction(pixels, selection, grid)[0]  # K C P P
    used = (selection.weight[0] > 0).any(dim=0)  # S; the others are there for the gradient only
    return Glance(
        label=label,
        image=_shrink(image),
        size=size,
        scores=chart(output.scores[0].float(), grid).cpu().numpy(),
        patches=_as_bytes(patches),
        boxes=grid.boxes(selection.index[0, used]).cpu().numpy(),
        weight=selection.weight[0][:, used].float().cpu().numpy(),
    )


@contextmanager
def _borrowed(model: Any, in_training: bool, sigma: float | None) -> Iterator[None]:
    """The model in evaluation mode, so that no running mean moves, but for the selection if it is `in_training`."""
    selection = model.selection
    kept_sigma = getattr(selection, "sigma", None)
    try:
        with torch.random.fork_rng(devices=[]), evaluating(model):
            torch.default_generator.manual_seed(0)
            selection.train(in_training)
            if sigma is not None:
                selection.sigma = sigma
            yield
    finally:
        if sigma is not None:
            selection.sigma = kept_sigma


def _shrink(image: UInt8[Tensor, "3 H W"] | ImageSource) -> UInt8[np.ndarray, "h w 3"]:
    if not isinstance(image, Tensor):
        return _as_bytes(image.view(min(1.0, SHOWN_PX / max(image.size)))[None])[0]
    scale = min(1.0, SHOWN_PX / max(image.shape))
    size = [max(1, round(side * scale)) for side in image.shape[-2:]]
    small = F.interpolate(image[None], size=size, mode="bilinear", antialias=True, align_corners=False)[0]
    return rearrange(small, "c h w -> h w c").contiguous().numpy()


def _as_bytes(patches: Float[Tensor, "K C P Q"]) -> UInt8[np.ndarray, "K P Q C"]:
    scaled = (patches.float() * 255).round().clamp(0, 255).byte()
    return rearrange(scaled, "k c p q -> k p q c").cpu().contiguous().numpy()


class Panels(Callback):
    """Panels of `count` validation images in the run's folder; nothing for systems that select no patches.

    A panel is written before the step it shows the start of, or after the last, and so before any checkpoint a run
    could go on from without it.
    """

    def __init__(self, folder: RunFolder, count: int = SHOWN):
        self.folder = folder
        self.count = count

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        """Panels of steps that are still to come, from a run that was stopped, will be made again."""
        if trainer.is_global_zero:
            self.folder.forget_panels(lambda step: step > trainer.global_step or not _is_due(pl_module, step))

    def on_train_batch_start(self, trainer: Trainer, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """At the start and in the middle: as in training."""
        if pl_module.main_step in (0, pl_module.recipe.steps // 2):
            self._write(trainer, pl_module)

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """At the end: as from now on."""
        if pl_module.main_step == pl_module.recipe.steps:
            self._write(trainer, pl_module)

    def on_validation_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Figures for TensorBoard."""
        boards = [logger for logger in trainer.loggers if isinstance(logger, TensorBoardLogger)]
        trains = trainer.state.fn == TrainerFn.FITTING and not trainer.sanity_checking
        if not (boards and trains and _selects(trainer, pl_module)):
            return
        for index, glance in look(pl_module, self.count):
            edges = extent(pl_module.model.grid(glance.size))
            for board in boards:
                figure = overlay(glance_look(glance, edges))
                figure.set_dpi(60)  # drawing must not take longer than validating
                board.experiment.add_figure(f"panels/{index}", figure, trainer.global_step)

    def _write(self, trainer: Trainer, task: Any) -> None:
        if not _selects(trainer, task):
            return
        glances = tuple(glance for _, glance in look(task, self.count))
        sigma = math.nan if task.sigma is None else task.sigma
        progress = task.main_step / task.recipe.steps
        self.folder.write_panel(Panel(trainer.global_step, progress, sigma, glances))


def look(task: Any, count: int = SHOWN) -> Iterator[tuple[int, Glance]]:
    """How the task's model looks at up to `count` validation images at this step, each with its number."""
    data = task.data["val"]
    numbers = {label: number for number, label in enumerate(data.records.classes)}
    labels = [numbers[record.label] for record in data.records.records]
    in_training = task.main_step < task.recipe.steps
    for index in spread(labels, count):
        image = data[index].image
        if isinstance(image, Tensor):
            image = task.augmentation.evaluation(image[None])[0]  # as the model sees it in validation
        yield index, glimpse(task.model, image, labels[index], in_training=in_training, sigma=task.sigma)


def _is_due(task: Any, step: int) -> bool:
    return step - task.recipe.warm_up.steps in (0, task.recipe.steps // 2, task.recipe.steps)


def _selects(trainer: Trainer, task: Any) -> bool:
    """Whether there is something to see, and this process is the one to show it. Looking at all places at once shows
    nothing, and would fill the disk.
    """
    return trainer.is_global_zero and hasattr(getattr(task.model, "selection", None), "k")
