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
from jaxtyping import UInt8
from lightning.fabric.loggers.tensorboard import TensorBoardLogger
from torch import Tensor

from saccade.data.dataset import ImageDataset, batch_of_one
from saccade.drawing import overlay
from saccade.images import ImageSource, unit_range
from saccade.looking import Look, as_bytes, look_at_slots
from saccade.module_modes import evaluating
from saccade.runs import RunFolder
from saccade.runs.training_panels import Panel
from saccade.training.learner import Learner

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
    model: Any, image: UInt8[Tensor, "3 H W"] | ImageSource, *, in_training: bool, sigma: float | None = None
) -> Look:
    """How `model` looks at `image`, its selection being in training mode or in evaluation mode.

    The model and the state of randomness stay as they are, and the same model gives the same answer.

    sigma: for a selection with noise, how much of it instead of what it has at the moment.
    """
    parameter = next(model.parameters())
    pixels = unit_range(batch_of_one(image)).to(parameter.device, parameter.dtype)
    with _borrowed(model, in_training, sigma):
        output = model(pixels)
    look = look_at_slots(output, size=(pixels.shape[-2], pixels.shape[-1]), seen=pixels)
    return look._replace(picture=_shrink(image))


@contextmanager
def _borrowed(model: Any, in_training: bool, sigma: float | None) -> Iterator[None]:
    """The model in evaluation mode, so that no running mean moves, but for the selection if it is `in_training`."""
    selection = model.selection
    kept_sigma = selection.sigma
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
        return as_bytes(image.view(min(1.0, SHOWN_PX / max(image.size)))[None])[0]
    scale = min(1.0, SHOWN_PX / max(image.shape))
    size = [max(1, round(side * scale)) for side in image.shape[-2:]]
    small = F.interpolate(image[None], size=size, mode="bilinear", antialias=True, align_corners=False)[0]
    return rearrange(small, "c h w -> h w c").contiguous().numpy()


class Panels:
    """Panels of `count` images of `data` in the run folder; nothing for systems that choose no patches.

    A panel is written before the step it shows the start of, or after the last, and so before any checkpoint a run
    could resume from without it. Those of steps from `first` on, from a run that was stopped, will be made again.
    """

    def __init__(self, files: RunFolder, learner: Learner, data: ImageDataset, *, first: int = 0, count: int = SHOWN):
        self.files, self.learner, self.data, self.count = files, learner, data, count
        plan = learner.plan
        self.due = [plan.label_free + labeled for labeled in (0, plan.labeled // 2, plan.labeled)]
        files.forget_panels(lambda step: step > first or step not in self.due)

    def before(self, step: int) -> None:
        """At the start and in the middle: as in training."""
        if step in self.due:
            self._write(step)

    def after(self, step: int) -> None:
        """At the end: as from now on."""
        if step == self.due[-1]:
            self._write(step)

    def show(self, step: int, board: TensorBoardLogger) -> None:
        """Figures for TensorBoard."""
        for index, look in self._look(step):
            figure = overlay(look)
            figure.set_dpi(60)  # drawing must not take longer than validating
            board.experiment.add_figure(f"panels/{index}", figure, step)

    def _write(self, step: int) -> None:
        if looks := tuple(look for _, look in self._look(step)):
            sigma = self.learner.sigma(step)
            sigma = math.nan if sigma is None else sigma
            self.files.write_panel(Panel(step, self.learner.plan.progress(step), sigma, looks))

    def _look(self, step: int) -> Iterator[tuple[int, Look]]:
        """How the model looks at the images at this step, each with its number.

        Only in the process that shows it; a look at all places at once shows nothing, and would fill the disk.
        """
        if not (self.files.writes and self.learner.chooses):
            return
        learner, records = self.learner, self.data.records
        strata = records.strata(records.records)
        known = sorted(set(strata))
        labels = [known.index(names) for names in strata]
        for index in spread(labels, self.count):
            image = self.data[index].image
            if isinstance(image, Tensor):
                image = learner.recipe.model.preparation.see(image[None])[0]  # as in validation
            in_training = step < learner.plan.total
            yield index, glimpse(learner.model, image, in_training=in_training, sigma=learner.sigma(step))
