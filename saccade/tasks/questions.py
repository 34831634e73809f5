"""Several questions about one image, each a task of its own: one model, shared patches, and logits for each question.

Logits, targets and losses are those of the questions one after the other; the loss of an image is the sum over all.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.tasks.labels import BETWEEN, split_answers
from saccade.tasks.task import Said, Task

WIDE = ("multi",)  # whose target is a number for each class


@dataclass(frozen=True)
class Questions(Task):
    """An answer to each of several questions."""

    parts: tuple[tuple[str, Task], ...]
    name: ClassVar = "questions"
    best_by: ClassVar = "loss"
    names_several: ClassVar = True

    @property
    def classes(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The names of each question's answers, after its own name."""
        return tuple(f"{question}: {name}" for question, task in self.parts for name in task.classes)

    @property
    def outputs(self) -> int:
        """Those of all questions."""
        return sum(task.outputs for _, task in self.parts)

    def target(self, label: str) -> tuple[float, ...]:
        """What each question asks, one after the other."""
        answers = split_answers(label, len(self.parts))
        targets = [task.target(answer) for (_, task), answer in zip(self.parts, answers, strict=True)]
        return tuple(float(value) for each in targets for value in (each if isinstance(each, tuple) else (each,)))

    def each(self, logits: Tensor, target: Tensor) -> Iterator[tuple[str, Task, Tensor, Tensor]]:
        """Every question with its own logits and target."""
        widths = [len(task.classes) if task.name in WIDE else 1 for _, task in self.parts]
        answers = logits.split([task.outputs for _, task in self.parts], dim=-1)
        for (question, task), mine, asked in zip(self.parts, answers, target.split(widths, dim=-1), strict=True):
            if task.name not in WIDE:
                asked = asked[..., 0] if task.name == "regression" else asked[..., 0].long()
            yield question, task, mine, asked

    def losses(self, logits: Float[Tensor, "*#shape L"], target: Float[Tensor, "*#shape T"]) -> Tensor:
        """Those of all questions."""
        return torch.cat([task.losses(mine, asked) for _, task, mine, asked in self.each(logits, target)], dim=-1)

    def weigh(self, target: Tensor, class_weight: Tensor | None) -> None:
        """Every image counts alike."""

    def class_weight(self, target: Tensor) -> None:
        """None: what is rare for one question is frequent for another."""

    def deal(self, target: Tensor) -> list[list[int]]:
        """As they come."""
        return [list(range(len(target)))]

    def temper(self, logits: Float[Tensor, "*shape L"]) -> Float[Tensor, "*shape L"]:
        """Each question has a temperature of its own."""
        return torch.cat([task.temper(mine) for task, mine in self._answers(logits)], dim=-1)

    def tell(self, logits: Float[Tensor, "*shape L"]) -> Float[Tensor, "*shape told"]:
        """What each question's task tells."""
        return torch.cat([task.tell(mine) for task, mine in self._answers(logits)], dim=-1)

    def _answers(self, logits: Float[Tensor, "*shape L"]) -> Iterator[tuple[Task, Tensor]]:
        tasks = [task for _, task in self.parts]
        return zip(tasks, logits.split([task.outputs for task in tasks], dim=-1), strict=True)

    def _split(self, told: Tensor) -> Iterator[tuple[str, Task, Tensor]]:
        widths = [len(task.classes) or 1 for _, task in self.parts]
        for (question, task), mine in zip(self.parts, told.split(widths, dim=-1), strict=True):
            yield question, task, mine

    def shares(self, told: Float[Tensor, "*shape told"]) -> Float[Tensor, "*shape classes"]:
        """Those of all questions that have any."""
        return torch.cat([task.shares(mine) for _, task, mine in self._split(told)], dim=-1)

    def say(self, told: Float[Tensor, " told"]) -> Said:
        """All answers; as sure as of the least sure one."""
        said = {question: task.say(mine) for question, task, mine in self._split(told)}
        sure = [each.confidence for each in said.values() if not math.isnan(each.confidence)]
        names = tuple(f"{question}: {name}" for question, each in said.items() for name in each.names)
        return Said(BETWEEN.join(each.text for each in said.values()), min(sure, default=math.nan), names, None, said)

    def right(self, logits: Float[Tensor, "B L"], target: Tensor) -> Float[Tensor, " B"] | None:
        """The mean over questions that can be answered right."""
        each = [task.right(mine, asked) for _, task, mine, asked in self.each(logits, target)]
        known = [right for right in each if right is not None]
        return torch.stack(known).mean(dim=0) if known else None

    def measure(
        self, logits: Float[Tensor, "n L"], target: Tensor, positive: int | None = None
    ) -> Mapping[str, float | Tensor]:
        """The numbers of each question, with its name; accuracy and loss also of all: their mean and their sum."""
        found: dict[str, Any] = {"loss": self.loss(self.temper(logits), target)}
        accuracies = []
        for question, task, mine, asked in self.each(logits, target):
            for name, value in task.measure(mine, asked).items():
                number, colon, of = name.partition(":")
                found[f"{number}:{question}{colon and ': '}{of}"] = value
                if name == "accuracy":
                    accuracies.append(value)
        return {**found, "accuracy": torch.stack(accuracies).mean()} if accuracies else found

    def prior_loss(self, target: Tensor) -> float:
        """Of all questions."""
        nothing = target.new_zeros(len(target), self.outputs)
        return sum(task.prior_loss(asked) for _, task, _, asked in self.each(nothing, target))

    def logit_of(self, name: str) -> int | None:
        """That of the question's own answer."""
        begin = 0
        for question, task in self.parts:
            if name.startswith(f"{question}: ") and name.removeprefix(f"{question}: ") in task.classes:
                place = task.logit_of(name.removeprefix(f"{question}: "))
                return None if place is None else begin + place
            begin += task.outputs
        return None
