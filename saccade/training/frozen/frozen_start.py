"""Images and a network that comes with weights → a model that answers, in minutes, with the network held still.

    view ─ network ─▶ whole, cells   1  glance: answers by the view as a whole
                                     2  search: answers by the cells that count, and so learns where to look
                                     what the view says is the better of the two, or their sum
    patches ─ network ─▶ cells       3  patches: where the search looks if the view's answer needs it, else where the
                                        view lacks detail; what they answer is added to what the view says. Of several
                                        sizes the smallest, unless a larger one's sum with the view is better

Nothing has to be found before something can be read, so it starts every time. Each answer is learnt alone, and judged
by the log-loss on images that its head never saw (`heads`): a network that may learn knows its images by heart, and
then any patch explains the label. An answer is added where that makes the log-loss smaller, and mirror images are
looked at, too, where the search's becomes smaller by it. Beside the glance alone, patches must gain more than a
standard error: otherwise a plain network on the view is the better model (`plain_network`).

The validation images are one of the parts on which heads are judged. So there are two models: one that never saw them,
from which training goes on and which it must beat, and one that saw everything.
"""

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from saccade.building import build_model
from saccade.config import ModelConfig
from saccade.data.dataset import Batch
from saccade.data.records import Records
from saccade.evaluation.sureness import Gain
from saccade.system import System
from saccade.training.frozen.heads import BagHead, CrossFitted, Standard
from saccade.training.frozen.judge import Answer, Judge
from saccade.training.frozen.plain_network import fit_plain
from saccade.training.frozen.seen import see_patches, see_views
from saccade.training.frozen.teacher import Teacher, Watch

MOST_MIRRORED = 1000  # images: more are looked at once, and have less need of it
Batches = Callable[[str], Iterable[Batch]]


class FrozenStart(NamedTuple):
    """The answers that were learnt, which of them the model adds up, and the model three times.

    patches:  by what they are chosen; None if a plain network on the view is the better model.
    mirrored: whether mirror images are looked at, too.
    blind:    has not seen the validation images; `on_trial` not the first part of the training images.
    """

    answers: tuple[Answer, ...]
    taken: Answer
    patches: str | None
    mirrored: bool
    blind: System
    on_trial: System
    seeing: System


class Reading(NamedTuple):
    """What patches of one size say: the model that cuts them, heads, their answer alone and with that of the view."""

    model: Any
    heads: CrossFitted[BagHead]
    alone: Answer
    together: Answer


def fit_frozen(
    config: ModelConfig,
    val: Records,
    train: Records,
    patch_sizes: Sequence[int] | None = None,
    *,
    seed: int,
    batches: Batches,
    watch: Watch[int],
) -> FrozenStart:
    """Fit heads for the model of `config`, made of the parts of `saccade train DATA --weights FILE`.

    patch_sizes: sides of patches to choose from, in pixels; that of `config` if there are none
    batches:     the images of `val` and then of `train` one by one, each time it is called with what is looked at
    watch:       tells how many of the heads are taught
    """
    torch.manual_seed(seed)
    model: Any = build_model(config).eval().requires_grad_(False)
    judge = Judge(val, train, model.task, seed)
    views = see_views(model, batches("views"), mirrors=len(judge.part) <= MOST_MIRRORED)
    once = [cells[:1] for cells in views.cells]
    teacher = Teacher.of(judge, once, seed, watch)

    search = teacher.teach("search", model.scorer.attention, once)
    by_search, mirrored = teacher.ask("search", search, once), False
    if len(judge.part) <= MOST_MIRRORED:
        search_both = teacher.teach("search, mirror images too", model.scorer.attention, views.cells)
        by_both = teacher.ask("search", search_both, views.cells)
        if mirrored := by_both.loss < by_search.loss:
            search, by_search = search_both, by_both
            model = _changed(model, scorer={"mirrored": True}, features={"mirrored": True})
    whole = views.whole.mean(dim=1) if mirrored else views.whole[:, 0]
    glance, by_glance = judge.glance("glance", whole)
    both = judge.add(by_glance, by_search)
    view = min((by_glance, by_search, both), key=lambda answer: answer.loss)

    # Where the view as a whole says most, what is to be found is not what the search found.
    where = search
    if view is by_glance:
        where = teacher.teach_detail(model.scorer.attention, once, views.detail)
    scores = teacher.scores(where, once)
    sizes = sorted(patch_sizes or ())
    sized = {f"patches of {side} px": _changed(model, extraction={"patch": side}) for side in sizes}
    readings = [
        _read(name, each, view, scores, teacher, batches, mirrored)
        for name, each in (sized or {"patches": model}).items()
    ]
    read = reduce(_better, readings)
    answers = (by_glance, by_search, both, *(answer for each in readings for answer in (each.alone, each.together)))

    gain = Gain.of(view.losses, read.together.losses)
    # Where a plain network would do, patches must be worth their cost.
    taken = read.together if (gain.is_clear if view is by_glance else gain.gain > 0) else view
    if taken is by_glance:
        plain = fit_plain(config, judge, lambda: batches("views"))
        return FrozenStart((*answers, plain.answer), plain.answer, None, False, *plain.models)
    made = [
        _install(read.model, taken.parts, teacher.standard, *heads)
        for heads in zip(glance.kept, where.kept, read.heads.kept, strict=True)
    ]
    return FrozenStart(answers, taken, "detail" if view is by_glance else "search", mirrored, *made)


def _read(
    name: str, model: Any, view: Answer, scores: list[Tensor], teacher: Teacher, batches: Batches, mirrored: bool
) -> Reading:
    """What heads of the patches that `scores` choose answer, alone and with the view."""
    cut = see_patches(model, scores, batches(name), mirrored)
    heads = teacher.teach(name, model.features.attention, cut)
    alone = teacher.ask("patches", heads, cut)._replace(name=name)
    return Reading(model, heads, alone, teacher.judge.add(view, alone))


def _better(smaller: Reading, larger: Reading) -> Reading:
    """Larger patches must be worth their cost, too."""
    return larger if Gain.of(smaller.together.losses, larger.together.losses).is_clear else smaller


# ---- heads → model


def _changed(model: Any, **stages: dict[str, Any]) -> Any:
    """A model of the same weights with other options of some stages."""
    changed = {stage: {**getattr(model.config, stage), **options} for stage, options in stages.items()}
    made = build_model(replace(model.config, **changed))
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
