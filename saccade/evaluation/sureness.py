"""Answers → their log-loss, as sure of themselves as they have reason to be.

Who is right of all images it learnt from is too sure of those it did not: two answers are compared, and added up, as
they are after each was scaled to its least loss. Otherwise one mistake would outweigh all that an answer knows.
"""

from typing import NamedTuple

from jaxtyping import Float, Shaped
from torch import Tensor

from saccade.tasks.task import Task

SCALES = [2.0 ** (power / 2) for power in range(-10, 4)]


class Sure(NamedTuple):
    """The loss of each image, rare answers counting as the task has it, and what logits are multiplied by for it."""

    losses: Float[Tensor, " n"]
    scale: float


class Gain(NamedTuple):
    """By how much less one answer loses than another on the same `images`, and the standard error of that."""

    gain: float
    error: float
    images: int

    @classmethod
    def of(cls, before: Float[Tensor, " n"], after: Float[Tensor, " n"]) -> "Gain":
        """Of the losses of the same images."""
        gain = before - after
        return cls(float(gain.mean()), float(gain.std() / len(gain) ** 0.5), len(gain))

    @property
    def is_clear(self) -> bool:
        """Whether that is more than chance.

        >>> Gain(gain=0.1, error=0.05, images=60).is_clear, Gain(gain=0.1, error=0.2, images=60).is_clear
        (True, False)
        """
        return self.gain > self.error


def as_sure_as_right(task: Task, logits: Float[Tensor, "n L"], target: Shaped[Tensor, "n ..."]) -> Sure:
    """The losses at the scale of logits that makes their mean least.

    >>> import torch
    >>> from saccade.tasks.single import Single
    >>> logits = torch.tensor([[8.0, 0.0], [0.0, 8.0]]).repeat_interleave(4, dim=0)  # sure, and right of three in four
    >>> losses, scale = as_sure_as_right(Single(("a", "b")), logits, torch.tensor([0, 0, 0, 1, 1, 1, 1, 0]))
    >>> scale, round(float(losses.mean()), 3)  # log-odds of 1; those of log 3 would be as sure as it should
    (0.125, 0.563)
    """
    weight = task.weigh(target, task.class_weight(target) if task.counts_alike else None)

    def at(scale: float) -> Float[Tensor, " n"]:
        losses = task.losses(scale * logits, target)
        return (losses if weight is None else losses * weight).sum(dim=1)

    return min((Sure(at(scale), scale) for scale in SCALES), key=lambda sure: float(sure.losses.mean()))
