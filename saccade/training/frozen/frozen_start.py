"""Images and a network that comes with weights → a model that answers, in minutes, with the network held still.

    view ─ network ─▶ whole, cells   1  glance: answers by the view as a whole
                                     2  search: answers by the cells that count, and so learns where to look
                                     what the view says is the better of the two, or their sum
    patches ─ network ─▶ cells       3  patches: where the search looks if the view's answer needs it, else where the
                                        view lacks detail; what they answer is added to what the view says

Nothing has to be found before something can be read, so it starts every time. Each answer is learnt alone, and judged
by the log-loss on images that its head never saw (`heads`): a network that may learn knows its images by heart, and
then any patch explains the label. An answer is added where that makes the log-loss smaller, and mirror images are
looked at, too, where the search's becomes smaller by it. Beside the glance alone, patches must gain more than a
standard error: otherwise a plain network on the view is the better model.

The validation images are one of the parts on which heads are judged. So there are two models: one that never saw them,
from which training goes on and which it must beat, and one that saw everything.
"""

import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.building import build_model
from saccade.config import ModelConfig
from saccade.data.dataset import Batch
from saccade.data.groups import deal
from saccade.data.records import Records
from saccade.features.cells import CellAttention, with_mirrored
from saccade.images import unit_range
from saccade.selection import ignore_outside
from saccade.system import System
from saccade.tasks.task import Task
from saccade.training.frozen.heads import (
    LABEL_FREE_PASSES,
    PASSES,
    BagHead,
    Bags,
    CrossFitted,
    Standard,
    cross_fit,
    fit_bag,
    fit_glance,
    standardize,
)
from saccade.training.label_free import label_free_loss, missing_detail

PARTS = 3  # of the training images, beside the validation images
SCALES = [2.0 ** (power / 2) for power in range(-10, 4)]
MOST_MIRRORED = 1000  # images: more are looked at once, and have less need of it
EVERY = 7  # cells of a view that are looked at for mean and variance
Batches = Callable[[str], Iterable[Batch]]
BagLoss = Callable[[BagHead, Float[Tensor, "B V K D r c"], Int[Tensor, " B"]], Tensor]


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


class FrozenStart(NamedTuple):
    """The answers that were learnt, which of them the model adds up, and the model: blind to val, and seeing it.

    patches:  by what they are chosen; None if a plain network on the view is the better model.
    mirrored: whether mirror images are looked at, too.
    """

    answers: tuple[Answer, ...]
    taken: Answer
    patches: str | None
    mirrored: bool
    blind: System
    seeing: System


class Judge:
    """Labels and parts of all images, those of the validation split first: what answers are judged by."""

    def __init__(self, val: Records, train: Records, task: Task, seed: int):
        parts = deal(train.records, [1 / PARTS] * PARTS, names=train.strata(train.records), seed=seed)
        self.part = torch.tensor([0] * len(val.records) + [1 + part for part in parts])
        everything = (*val.records, *train.records)
        self.task, self.label = task, torch.tensor([task.target(record.label) for record in everything])
        self.weight = task.weigh(self.label, task.class_weight(self.label) if task.counts_alike else None)

    def judge(self, name: str, logits: Float[Tensor, "n L"], parts: dict[str, float]) -> Answer:
        """An answer by the logits of all images, as sure of itself as it has reason to be.

        Heads that are right of all they saw are too sure of what they did not: added up, one mistake would outweigh
        all that they know together.
        """
        losses, scale = min(
            ((self._losses(scale * logits), scale) for scale in SCALES), key=lambda each: float(each[0].mean())
        )
        right = self.task.right(logits, self.label)
        accuracy = math.nan if right is None else right.mean().item()
        return Answer(name, scale * logits, losses, accuracy, {part: scale * by for part, by in parts.items()})

    def add(self, one: Answer, other: Answer) -> Answer:
        """What two answers say together."""
        return self.judge(f"{one.name} and {other.name}", one.logits + other.logits, one.parts | other.parts)

    def _losses(self, logits: Float[Tensor, "n L"]) -> Float[Tensor, " n"]:
        losses = self.task.losses(logits, self.label)
        return (losses if self.weight is None else losses * self.weight).sum(dim=1)

    def out_of_fold(self, heads: CrossFitted[Any], ask: Callable[[Any, int], Tensor]) -> list[Tensor]:
        """What the head that never saw it says of each image, given by its place."""
        with torch.no_grad():
            return [ask(heads.blind[part], place) for place, part in enumerate(self.part.tolist())]

    def groups_among(self, places: Int[Tensor, " m"]) -> list[list[int]]:
        """Places to be dealt in turn."""
        groups = self.task.deal(self.label[places]) if self.task.counts_alike else [list(range(len(places)))]
        return [places[group].tolist() for group in groups]

    def fit_glance(self, features: Float[Tensor, "n D"], places: Int[Tensor, " m"]) -> nn.Linear:
        """A linear head of the whole view, fitted to some of the images."""
        return fit_glance(features[places], self.label[places], self.task)


def fit_frozen(config: ModelConfig, val: Records, train: Records, *, seed: int, batches: Batches) -> FrozenStart:
    """Fit heads for the model of `config`, made of the parts of `saccade train DATA --weights FILE`.

    batches: the images of `val` and then of `train` one by one, each time it is called with what is looked at
    """
    torch.manual_seed(seed)
    model: Any = build_model(config).eval().requires_grad_(False)
    judge = Judge(val, train, model.task, seed)
    mirrors = len(judge.part) <= MOST_MIRRORED
    views = _see_views(model, batches("views"), mirrors)
    once = [cells[:1] for cells in views.cells]
    standard = Standard.of(torch.cat([cells[0, 0].flatten(1).T[::EVERY].float() for cells in once]))

    def teach(attention: CellAttention, bags: Bags, loss: BagLoss, passes: int = PASSES) -> CrossFitted[BagHead]:
        def fit(places: Int[Tensor, " m"]) -> BagHead:
            head = BagHead(deepcopy(attention).requires_grad_(True), judge.task.outputs)
            return fit_bag(head, bags, standard, loss, judge.groups_among(places), passes=passes, seed=seed)

        return cross_fit(fit, judge.part)

    def by_label(head: BagHead, cells: Tensor, places: Tensor) -> Tensor:
        answers = head(cells)  # B L H: every head answers alone
        losses = judge.task.losses(rearrange(answers, "b l h -> b h l"), judge.label[places][:, None])
        return losses.sum(dim=2).mean()

    def by_detail(head: BagHead, cells: Tensor, places: Tensor) -> Tensor:
        scores = head.attention(cells[:, 0, 0]).scores
        return label_free_loss(scores, torch.stack([views.detail[place] for place in places]))

    def judge_bags(name: str, heads: CrossFitted[BagHead], bags: Bags) -> Answer:
        said = judge.out_of_fold(heads, lambda head, place: head(standardize(bags[place : place + 1], standard))[0])
        return judge.judge(name, torch.stack(said).mean(dim=2), {name: 1.0})

    search = teach(model.scorer.attention, once, by_label)
    by_search = judge_bags("search", search, once)
    mirrored = False
    if mirrors:
        search_both = teach(model.scorer.attention, views.cells, by_label)
        by_both = judge_bags("search", search_both, views.cells)
        if mirrored := by_both.loss < by_search.loss:
            search, by_search, model = search_both, by_both, _mirroring(model)
    whole = views.whole.mean(dim=1) if mirrored else views.whole[:, 0]
    glance = cross_fit(partial(judge.fit_glance, whole), judge.part)
    said = judge.out_of_fold(glance, lambda head, place: head(whole[place]))
    by_glance = judge.judge("glance", torch.stack(said), {"glance": 1.0})
    both = judge.add(by_glance, by_search)
    view = min((by_glance, by_search, both), key=lambda answer: answer.loss)
    # Where the view as a whole says most, what is to be found is not what the search found.
    where = search
    if view is by_glance:
        where = teach(model.scorer.attention, once, by_detail, LABEL_FREE_PASSES)
    scores = judge.out_of_fold(
        where, lambda head, place: head.attention(standardize(once[place : place + 1], standard)[:, 0, 0]).scores
    )
    patches = _see_patches(model, scores, batches("patches"), mirrored)
    read = teach(model.features.attention, patches, by_label)
    by_patches = judge_bags("patches", read, patches)
    together = judge.add(view, by_patches)
    answers = (by_glance, by_search, both, by_patches, together)
    gain = view.losses - together.losses
    # Where a plain network would do, patches must be worth their cost: more than chance.
    needed = gain.std() / len(gain) ** 0.5 if view is by_glance else 0.0
    taken = together if gain.mean() > needed else view
    if taken is by_glance:
        return FrozenStart(answers, taken, None, False, *_fit_plain(config, judge, batches("views")))
    fitted = (
        _install(model, taken.parts, standard, glance.blind[0], where.blind[0], read.blind[0]),
        _install(model, taken.parts, standard, glance.seeing, where.seeing, read.seeing),
    )
    return FrozenStart(answers, taken, "detail" if view is by_glance else "search", mirrored, *fitted)


# ---- what the network sees


class _Views(NamedTuple):
    """Of each image: cells of its view, features of the whole, and the detail its view lacks at each candidate.

    V is 1, or 2 if its mirror image was looked at, too.
    """

    cells: list[Tensor]  # V 1 D rows cols
    whole: Float[Tensor, "n V G"]
    detail: list[Tensor]  # N


@torch.inference_mode()
def _see_views(model: Any, batches: Iterable[Batch], mirrors: bool) -> _Views:
    cells, whole, detail = [], [], []
    for image in _images(model, batches):
        view = model.view(image)
        seen = model.scorer.stages(with_mirrored(view) if mirrors else view)
        cells.append(seen.cells[:, None].half())  # half of the memory: 0.3 MB an image
        whole.append(seen.whole)
        detail.append(missing_detail(image, view, model.grid(image.shape[-2:]))[0])
    return _Views([each.clone() for each in cells], torch.stack(whole).clone(), [each.clone() for each in detail])


@torch.inference_mode()
def _see_patches(model: Any, scores: list[Tensor], batches: Iterable[Batch], mirrored: bool) -> list[Tensor]:
    patches = []
    for image, raw_scores in zip(_images(model, batches), scores, strict=True):
        grid, scored = model.grid(image.shape[-2:]), model.selection.normalize(raw_scores)
        if model.view.tissue:
            grid = model.leave_out_glass(grid, model.view(image), image.shape[-2:])
            scored = ignore_outside(raw_scores, grid.inside, model.selection.normalize)[1]
        selection = model.selection(scored, grid)
        cut = model.extraction(image, selection, grid)[0]
        cells = model.features.stages(with_mirrored(cut) if mirrored else cut).cells
        patches.append(rearrange(cells, "(v k) d r c -> v k d r c", k=len(cut)).half())
    return [each.clone() for each in patches]


def _images(model: System, batches: Iterable[Batch]) -> Iterable[Any]:
    for batch in batches:
        yield model.config.preparation.see(unit_range(batch.image))


# ---- heads → model


def _mirroring(model: Any) -> Any:
    """The same model, looking at mirror images, too."""
    config = model.config
    both = replace(config, scorer={**config.scorer, "mirrored": True}, features={**config.features, "mirrored": True})
    made = build_model(both)
    made.load_state_dict(model.state_dict())
    return made.eval().requires_grad_(False)


def _install(
    model: Any, parts: dict[str, float], standard: Standard, glance: nn.Linear, where: BagHead, read: BagHead
) -> System:
    """A copy of the model with what the heads learnt: what they answer is added up by its linear layer."""
    made = deepcopy(model)
    for attention, head in ((made.scorer.attention, where), (made.features.attention, read)):
        attention.load_state_dict(head.attention.state_dict())
        standard.fold(attention.describe)
    answers = {"patches": read.linear(), "search": where.linear(), "glance": (glance.weight, glance.bias)}
    scaled = [[parts.get(name, 0.0) * each for each in linear] for name, linear in answers.items()]
    weights, biases = zip(*scaled, strict=True)
    made.prediction.weight.copy_(torch.cat(weights, dim=1))
    made.prediction.bias.copy_(torch.stack(biases).sum(dim=0))
    return made.requires_grad_(True)


def _fit_plain(config: ModelConfig, judge: Judge, batches: Iterable[Batch]) -> tuple[System, System]:
    """The network on the view with a linear head: blind to the validation images, and seeing them."""
    network = {key: config.features[key] for key in ("model", "pretrained", "weights") if key in config.features}
    plain = replace(config, system="cnn", features={"name": "backbone", **network}, prediction={"name": "linear"})
    model: Any = build_model(plain).eval().requires_grad_(False)
    with torch.inference_mode():
        whole = torch.cat([model.features(model.view(image)) for image in _images(model, batches)]).clone()
    made = []
    for places in (torch.nonzero(judge.part != 0).flatten(), torch.arange(len(judge.part))):
        copied = deepcopy(model)
        copied.prediction.load_state_dict(judge.fit_glance(whole, places).state_dict())
        made.append(copied.requires_grad_(True))
    return made[0], made[1]
