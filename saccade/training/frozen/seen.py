"""Images → what the network that is held still sees of their views, and of the patches that are chosen in them."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from saccade.data.dataset import Batch
from saccade.features.cells import with_mirrored
from saccade.images import unit_range
from saccade.selection import ignore_outside
from saccade.system import System
from saccade.training.label_free import missing_detail


class Views(NamedTuple):
    """Of each image: cells of its view, features of the whole, and the detail its view lacks at each candidate.

    V is 1, or 2 if its mirror image was looked at, too.
    """

    cells: list[Tensor]  # V 1 D rows cols
    whole: Float[Tensor, "n V G"]
    detail: list[Tensor]  # N


@torch.inference_mode()
def see_views(model: Any, batches: Iterable[Batch], mirrors: bool) -> Views:
    """All views once, and their mirror images if `mirrors`."""
    cells, whole, detail = [], [], []
    for image in images_of(model, batches):
        view = model.view(image)
        seen = model.scorer.stages(with_mirrored(view) if mirrors else view)
        cells.append(seen.cells[:, None].half())  # half of the memory: 0.3 MB an image
        whole.append(seen.whole)
        detail.append(missing_detail(image, view, model.grid(image.shape[-2:]))[0])
    return Views([each.clone() for each in cells], torch.stack(whole).clone(), [each.clone() for each in detail])


@torch.inference_mode()
def see_patches(model: Any, scores: list[Tensor], batches: Iterable[Batch], mirrored: bool) -> list[Tensor]:
    """Of each image the cells of the patches that `scores` choose: V K D rows cols."""
    patches = []
    for image, raw_scores in zip(images_of(model, batches), scores, strict=True):
        grid, scored = model.grid(image.shape[-2:]), model.selection.normalize(raw_scores)
        if model.view.tissue:
            grid = model.leave_out_glass(grid, model.view(image), image.shape[-2:])
            scored = ignore_outside(raw_scores, grid.inside, model.selection.normalize)[1]
        selection = model.selection(scored, grid)
        cut = model.extraction(image, selection, grid)[0]
        cells = model.features.stages(with_mirrored(cut) if mirrored else cut).cells
        patches.append(rearrange(cells, "(v k) d r c -> v k d r c", k=len(cut)).half())
    return [each.clone() for each in patches]


def images_of(model: System, batches: Iterable[Batch]) -> Iterable[Any]:
    """What the model is given of each batch."""
    for batch in batches:
        yield model.config.preparation.see(unit_range(batch.image))
