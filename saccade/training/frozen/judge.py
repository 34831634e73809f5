"""Answers of heads → which is better: by the log-loss on images that their head never saw, as sure as it should be."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.data.groups import deal
from saccade.data.records import Records
from saccade.evaluation.sureness import as_sure_as_right
from saccade.tasks.task import Task
from saccade.training.frozen.heads import CrossFitted, cross_fit, fit_glance

PARTS = 3  # of the training images, beside the validation images


def deal_parts(train: Records, seed: int) -> list[int]:
    """In which part each of the training images is."""
    return deal(train.records, [1 / PARTS] * PARTS, names=train.strata(train.records), seed=seed)


class Answer(NamedTuple):
    """What heads say of images that they never saw: the loss of each, rare answers counting as the task has it, and the
    share of right answers (NaN where answers are numbers).

    parts: by what the logits of glance, search and patches are multiplied before they are added up.
    """

    name: str
    logits: Float[Tensor, "n L"]
    losses: Float[Tensor, " n"]
    accuracy: float
    parts: dict[str, float]

    @property
    def loss(self) -> float:
        """The mean log-loss."""
        return float(self.losses.mean())


class Judge:
    """Labels and parts of all images, those of the validation split first: what answers are judged by."""

    def __init__(self, val: Records, train: Records, task: Task, seed: int):
        self.part = torch.tensor([0] * len(val.records) + [1 + part for part in deal_parts(train, seed)])
        everything = (*val.records, *train.records)
        self.task, self.label = task, torch.tensor([task.target(record.label) for record in everything])

    def judge(self, name: str, logits: Float[Tensor, "n L"], parts: dict[str, float]) -> Answer:
        """An answer by the logits of all images, as sure of itself as it has reason to be."""
        losses, scale = as_sure_as_right(self.task, logits, self.label)
        right = self.task.right(logits, self.label)
        accuracy = math.nan if right is None else right.mean().item()
        return Answer(name, scale * logits, losses, accuracy, {part: scale * by for part, by in parts.items()})

    def add(self, one: Answer, other: Answer) -> Answer:
        """What two answers say together."""
        return self.judge(f"{one.name} and {other.name}", one.logits + other.logits, one.parts | other.parts)

    def out_of_fold(self, heads: CrossFitted[Any], ask: Callable[[Any, int], Tensor]) -> list[Tensor]:
        """What the head that never saw it says of each image, given by its place."""
        with torch.no_grad():
            return [ask(heads.blind[part], place) for place, part in enumerate(self.part.tolist())]

    def groups_among(self, places: Int[Tensor, " m"]) -> list[list[int]]:
        """Places to be dealt in turn."""
        groups = self.task.deal(self.label[places]) if self.task.counts_alike else [list(range(len(places)))]
        return [places[group].tolist() for group in groups]

    def glance(self, name: str, whole: Float[Tensor, "n D"]) -> tuple[CrossFitted[nn.Linear], Answer]:
        """Linear heads of the whole view, and what they answer of images that they never saw."""
        heads = cross_fit(lambda places: fit_glance(whole[places], self.label[places], self.task), self.part)
        said = self.out_of_fold(heads, lambda head, place: head(whole[place]))
        return heads, self.judge(name, torch.stack(said), {name: 1.0})
