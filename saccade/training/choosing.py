"""Who chooses the patches of a training step, as its phase says: scores → Selection.

    model              the model's own selection, which is left to choose
    scores             the model's own selection as in evaluation: the best scores, without noise
    detail             the candidates whose detail the view lacks most (`missing_detail`, which needs no label)
    detail_and_scores  half of the patches by each, so that the scorer's mistakes are looked at too

All but the first are hard choices through which no gradient goes.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.images import Sources
from saccade.model import PatchSelectionModel
from saccade.module_modes import evaluating
from saccade.selection.selection import Selection, identity_selection
from saccade.training.label_free import missing_detail
from saccade.training.phases import Chooser

Images = Float[Tensor, "B C H W"] | Sources
Sizes = Int[Tensor, "B 2"] | None
Choice = Callable[[Float[Tensor, "B N"]], Selection]


def detail_topk(scores: Float[Tensor, "B N"], detail: Float[Tensor, "B N"], k: int, *, own: int) -> Selection:
    """The `own` candidates of highest score and, of the rest, those that lack most detail: K in index order.

    >>> detail_topk(torch.tensor([[0.0, 0.9, 0.1, 0.8]]), torch.tensor([[3.0, 9.0, 5.0, 1.0]]), 2, own=1).index
    tensor([[1, 2]])
    """
    mine = scores.detach().topk(own, dim=1).indices
    ranked = detail.scatter(1, mine, torch.inf).topk(k, dim=1).indices
    return identity_selection(ranked.sort(dim=1).values, scores.dtype)


def detail_of(model: PatchSelectionModel, image: Images, size: Sizes) -> Float[Tensor, "B N"]:
    """What the view lacks of the image at each candidate."""
    grid = model.grid(image.shape[-2:], image.device)
    return missing_detail(image, model.view(image), grid, size=size)


def _by_scores(model: Any, image: Images, size: Sizes) -> Choice:
    grid = model.grid(image.shape[-2:], image.device, size)

    def choose(scores: Float[Tensor, "B N"]) -> Selection:
        with evaluating(model.selection):
            return model.selection(scores.detach(), grid)

    return choose


def _by_detail(model: Any, image: Images, size: Sizes) -> Choice:
    return partial(detail_topk, detail=_detail_to_choose(model, image, size), k=model.selection.k, own=0)


def _by_detail_and_scores(model: Any, image: Images, size: Sizes) -> Choice:
    slots = model.selection.k
    return partial(detail_topk, detail=_detail_to_choose(model, image, size), k=slots, own=slots // 2)


def _detail_to_choose(model: Any, image: Images, size: Sizes) -> Float[Tensor, "B N"]:
    """The detail, and none at all on the white glass of a slide."""
    detail = detail_of(model, image, size)
    if not model.view.tissue:
        return detail
    grid = model.grid(image.shape[-2:], image.device, size)
    inside = model.leave_out_glass(grid, model.view(image), image.shape[-2:]).inside
    return detail if inside is None else detail.masked_fill(~inside, -torch.inf)


CHOOSERS: dict[Chooser, Callable[[Any, Images, Sizes], Choice]] = {
    "scores": _by_scores,
    "detail": _by_detail,
    "detail_and_scores": _by_detail_and_scores,
}
