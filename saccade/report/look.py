"""A model and an image → `Look`: what a picture of "where did it look?" is drawn from."""

from typing import Any, NamedTuple

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from saccade.datasets.dataset import unit_range
from saccade.extraction import Grid
from saccade.extraction.anchors import Anchors, resize_regions
from saccade.report.run import Glance
from saccade.selection import normalise_scores

Edges = tuple[float, float, float, float]


class Look(NamedTuple):
    """Where a model looked in an image. Whatever a model does not have is empty: a CNN has neither scores nor boxes.

    scores:   in [0, 1], one per cell of a grid that spans `extent` (left, top, right, bottom in pixels of the image,
              perhaps a little beyond it).
    boxes:    left, top, right, bottom in pixels of the full image, whose height and width are `size`.
    strength: in [0, 1], how much of each box went into the patches.
    crops:    the patches, sharp or blended.
    values:   the score of each crop, best first; empty where crops are blends of many boxes.
    truth:    boxes that somebody drew around the evidence.
    """

    image: UInt8[np.ndarray, "h w 3"]
    size: tuple[int, int]
    scores: Float[np.ndarray, "rows cols"] = np.zeros((0, 0), np.float32)
    extent: Edges = (0.0, 0.0, 0.0, 0.0)
    boxes: Int[np.ndarray, "S 4"] = np.zeros((0, 4), np.int64)
    strength: Float[np.ndarray, " S"] = np.zeros(0, np.float32)
    crops: UInt8[np.ndarray, "K P Q 3"] = np.zeros((0, 1, 1, 3), np.uint8)
    values: Float[np.ndarray, " slots"] = np.zeros(0, np.float32)
    truth: Int[np.ndarray, "R 4"] = np.zeros((0, 4), np.int64)


class Seen(NamedTuple):
    """A look and the answer that came of it."""

    look: Look
    probability: Float[Tensor, " L"]


@torch.no_grad()
def look_at(model: Any, image: UInt8[Tensor, "3 H W"], truth: Int[Tensor, "R 4"] | None = None) -> Seen:
    """What `model`, in evaluation mode, looks at in `image`, and what it says."""
    pixels = unit_range(image[None])
    output = model(pixels.to(next(model.parameters()).device))
    size = (image.shape[-2], image.shape[-1])
    boxes = np.zeros((0, 4), np.int64) if truth is None else truth.cpu().numpy()
    look = Look(rearrange(image, "c h w -> h w c").numpy(), size, truth=boxes)
    if hasattr(output, "selection"):
        look = look._replace(**_chosen(output, pixels, model.grid(size)))
    elif hasattr(output, "boxes"):
        look = look._replace(**_boxed(output.boxes[0].cpu(), pixels, model.extraction.patch))
    return Seen(look, output.logits[0].float().softmax(dim=0).cpu())


def _chosen(output: Any, pixels: Tensor, grid: Grid | Anchors) -> dict[str, Any]:
    index, scores = output.selection.index[0].cpu(), output.scores[0].float().cpu()
    index = index[scores[index].argsort(descending=True, stable=True)]  # S, best first
    crops = grid.read(pixels, index[None])[0]
    return {
        "scores": chart(scores, grid).numpy(),
        "extent": extent(grid),
        "boxes": grid.boxes(index).numpy(),
        "strength": np.ones(len(index), np.float32),
        "crops": _as_bytes(crops),
        "values": scores[index].numpy(),
    }


def _boxed(boxes: Int[Tensor, "K 4"], pixels: Tensor, patch: tuple[int, int]) -> dict[str, Any]:
    """Of a system that looks somewhere without scoring places: what is inside its boxes, all at the size `patch`."""
    crops = resize_regions(pixels, boxes[None], patch)[0]
    return {"boxes": boxes.numpy(), "strength": np.ones(len(boxes), np.float32), "crops": _as_bytes(crops)}


def _as_bytes(crops: Float[Tensor, "s c p q"]) -> UInt8[np.ndarray, "s p q c"]:
    return rearrange(crops * 255, "s c p q -> s p q c").round().byte().numpy()


def chart(scores: Float[Tensor, " N"], grid: Grid | Anchors) -> Float[Tensor, "rows cols"]:
    """The scores as a map over the image, from 0 to 1 whatever the selector takes."""
    if scores.min() < 0 or scores.max() > 1:
        scores = normalise_scores(scores[None])[0]
    return scores.reshape(grid.shape) if isinstance(grid, Grid) else grid.chart(scores)


def extent(grid: Grid | Anchors) -> Edges:
    """Left, top, right and bottom of the cells that the scores belong to: candidates' centres lie in their middles.

    >>> extent(Grid(torch.tensor([0]), torch.tensor([-5, 15, 35]), (40, 30)))  # centres at 10, 30, 50
    (0.0, 0.0, 60.0, 40.0)
    """
    if isinstance(grid, Anchors):
        return grid.extent
    (left, right), (top, bottom) = (
        _span(corners, side) for corners, side in ((grid.left_px, grid.patch[1]), (grid.top_px, grid.patch[0]))
    )
    return left, top, right, bottom


def _span(corners: Int[Tensor, " cells"], patch_px: int) -> tuple[float, float]:
    first, last = float(corners[0]) + patch_px / 2, float(corners[-1]) + patch_px / 2
    # A single cell says nothing of its width; its patch does.
    cell = (last - first) / (len(corners) - 1) if len(corners) > 1 else patch_px
    return first - cell / 2, last + cell / 2


def glance_look(glance: Glance, edges: Edges | None = None) -> Look:
    """A moment of training as a look: boxes are as strong as their weight, and crops are blends of them."""
    height, width = glance.size
    return Look(
        image=glance.image,
        size=glance.size,
        scores=glance.scores,
        extent=edges or (0.0, 0.0, float(width), float(height)),
        boxes=glance.boxes,
        strength=glance.weight.sum(axis=0).clip(0, 1),
        crops=glance.patches,
    )
