"""Heads of cells, each taught on the images of all parts but one, and asked about that one."""

from collections.abc import Callable, Collection, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from saccade.features.cells import CellAttention
from saccade.training.frozen.heads import (
    LABEL_FREE_PASSES,
    PASSES,
    BagHead,
    Bags,
    CrossFitted,
    Standard,
    cross_fit,
    fit_bag,
    standardize,
)
from saccade.training.frozen.judge import Answer, Judge
from saccade.training.label_free import label_free_loss

Thing = TypeVar("Thing")
Watch = Callable[[Collection[Thing], str], Iterable[Thing]]  # the same things, while somebody is told how far it is
BagLoss = Callable[[BagHead, Float[Tensor, "B V K D r c"], Int[Tensor, " B"]], Tensor]
EVERY = 7  # cells of a view that are looked at for mean and variance


@dataclass(frozen=True)
class Teacher:
    """What all heads have in common; `standard` is that of all cells."""

    judge: Judge
    standard: Standard
    seed: int
    watch: Watch[int]

    @classmethod
    def of(cls, judge: Judge, views: Bags, seed: int, watch: Watch[int]) -> "Teacher":
        """With the mean and variance of the cells of `views`."""
        cells = torch.cat([view[0, 0].flatten(1).T[::EVERY].float() for view in views])
        return cls(judge, Standard.of(cells), seed, watch)

    def teach(self, name: str, attention: CellAttention, bags: Bags) -> CrossFitted[BagHead]:
        """Heads that begin with `attention`, taught by the loss of their answers."""
        fit = partial(self._fit, attention, bags, self._by_label, PASSES)
        return cross_fit(fit, self.judge.part, lambda parts: self.watch(parts, f"teaching heads: {name}"))

    def teach_detail(self, attention: CellAttention, bags: Bags, detail: Sequence[Tensor]) -> CrossFitted[BagHead]:
        """Heads whose scores tell where detail is missing. They see no label, so one may tell of all it learnt from."""

        def by_detail(head: BagHead, cells: Float[Tensor, "B V K D r c"], places: Int[Tensor, " B"]) -> Tensor:
            scores = head.attention(cells[:, 0, 0]).scores
            return label_free_loss(scores, torch.stack([detail[place] for place in places.tolist()]))

        part = self.judge.part
        among = torch.nonzero(part != 0).flatten(), torch.arange(len(part))
        watched = self.watch(range(len(among)), "teaching heads: missing detail")
        blind, seeing = (self._fit(attention, bags, by_detail, LABEL_FREE_PASSES, among[which]) for which in watched)
        return CrossFitted([blind] * (int(part.max()) + 1), seeing)

    def _fit(
        self, attention: CellAttention, bags: Bags, loss: BagLoss, passes: int, places: Int[Tensor, " m"]
    ) -> BagHead:
        head = BagHead(deepcopy(attention).requires_grad_(True), self.judge.task.outputs)
        groups = self.judge.groups_among(places)
        return fit_bag(head, bags, self.standard, loss, groups, passes=passes, seed=self.seed)

    def _by_label(self, head: BagHead, cells: Float[Tensor, "B V K D r c"], places: Int[Tensor, " B"]) -> Tensor:
        answers = rearrange(head(cells), "b l h -> b h l")  # every head answers alone
        return self.judge.task.losses(answers, self.judge.label[places][:, None]).sum(dim=2).mean()

    def ask(self, name: str, heads: CrossFitted[BagHead], bags: Bags) -> Answer:
        """What they answer of images that they never saw."""
        said = self.judge.out_of_fold(heads, lambda head, place: head(self._standardized(bags, place))[0])
        return self.judge.judge(name, torch.stack(said).mean(dim=2), {name: 1.0})

    def scores(self, heads: CrossFitted[BagHead], bags: Bags) -> list[Tensor]:
        """Where they look in images that they never saw."""
        return self.judge.out_of_fold(
            heads, lambda head, place: head.attention(self._standardized(bags, place)[:, 0, 0]).scores
        )

    def _standardized(self, bags: Bags, place: int) -> Tensor:
        return standardize(bags[place : place + 1], self.standard)
