"""A model and an image → `Look`: what a picture of "where did it look?" is drawn from."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from saccade.data.dataset import unit_range
from saccade.extraction import Grid
from saccade.extraction.anchors import Anchors, resize_regions
from saccade.images import ImageSource, Sources
from saccade.preparation import center_corner
from saccade.runs.training_panels import Glance
from saccade.selection import Exhaustive, normalize_scores

SHOWN_PX = 2000  # longest side of a picture as it is shown
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
def look_at(
    model: Any,
    image: UInt8[Tensor, "3 H W"] | ImageSource,
    truth: Int[Tensor, "R 4"] | None = None,
    *,
    crop: Callable[[Tensor], Tensor] | None = None,
) -> Seen:
    """What `model`, in evaluation mode, looks at in `image`, and what it says.

    Of a source only the parts that the model asks for are read, and a small view to show. `crop` is what an
    augmentation does to pixels in evaluation: the model sees the center only, and all of the image is shown.
    """
    seen = _seen(image, crop)
    output = model(seen.to(next(model.parameters()).device))
    size, inner = _size(image), (seen.shape[-2], seen.shape[-1])
    boxes = np.zeros((0, 4), np.int64) if truth is None else truth.cpu().numpy()
    look = Look(_picture(image), size, truth=boxes)
    if not chooses(model):
        return Seen(look, _shares(output))
    if hasattr(output, "selection"):
        look = look._replace(**_chosen(output, seen, model.grid(inner)))
    elif hasattr(output, "boxes"):
        look = look._replace(**_boxed(output.boxes[0].cpu(), seen, model.extraction.patch))
    return Seen(_move(look, center_corner(size, inner)), _shares(output))


def chooses(model: Any) -> bool:
    """Whether the model prefers places to others: to look everywhere is no choice, and its scores mean nothing."""
    return not isinstance(getattr(model, "selection", None), Exhaustive)


def _shares(output: Any) -> Float[Tensor, " L"]:
    return output.logits[0].float().softmax(dim=0).cpu()


def _seen(image: Tensor | ImageSource, crop: Callable[[Tensor], Tensor] | None) -> Any:
    if not isinstance(image, Tensor):
        return Sources([image])
    pixels = unit_range(image[None])
    return crop(pixels) if crop else pixels


def _size(image: Tensor | ImageSource) -> tuple[int, int]:
    return (image.shape[-2], image.shape[-1]) if isinstance(image, Tensor) else image.size


def _picture(image: Tensor | ImageSource) -> UInt8[np.ndarray, "h w 3"]:
    return rearrange(image, "c h w -> h w c").numpy() if isinstance(image, Tensor) else thumbnail(image)


def thumbnail(image: ImageSource) -> UInt8[np.ndarray, "h w 3"]:
    """All of an image, as large as it is ever shown."""
    return _as_bytes(image.view(min(1.0, SHOWN_PX / max(image.size)))[None])[0]


def _move(look: Look, corner: tuple[int, int]) -> Look:
    left, top, right, bottom = look.extent
    return look._replace(
        boxes=look.boxes + np.array(corner * 2),
        extent=(left + corner[0], top + corner[1], right + corner[0], bottom + corner[1]),
    )


def stretch(look: Look, size: tuple[int, int]) -> Look:
    """The same look in pixels of an image of another `size` (height, width); its picture is drawn over all of that.

    >>> stretch(Look(np.zeros((4, 4, 3), np.uint8), (4, 4), boxes=np.array([[0, 0, 1, 2]])), (8, 40)).boxes
    array([[ 0,  0, 10,  4]])
    """
    y, x = size[0] / look.size[0], size[1] / look.size[1]
    left, top, right, bottom = look.extent
    return look._replace(
        size=size,
        extent=(left * x, top * y, right * x, bottom * y),
        boxes=(look.boxes * [x, y, x, y]).round().astype(np.int64),
        truth=(look.truth * [x, y, x, y]).round().astype(np.int64),
    )


def _chosen(output: Any, pixels: Any, grid: Grid | Anchors) -> dict[str, Any]:
    used = output.selection.used[0].cpu()
    index, scores = output.selection.index[0].cpu()[used], output.scores[0].float().cpu()
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
    return rearrange(crops * 255, "s c p q -> s p q c").round().clamp(0, 255).byte().contiguous().cpu().numpy()


def chart(scores: Float[Tensor, " N"], grid: Grid | Anchors) -> Float[Tensor, "rows cols"]:
    """The scores as a map over the image, from 0 to 1 whatever the selector takes."""
    if scores.min() < 0 or scores.max() > 1:
        scores = normalize_scores(scores[None])[0]
    return scores.reshape(grid.shape) if isinstance(grid, Grid) else grid.chart(scores)


def extent(grid: Grid | Anchors) -> Edges:
    """Left, top, right and bottom of the cells that the scores belong to: candidates' centers lie in their middles.

    >>> extent(Grid(torch.tensor([0]), torch.tensor([-5, 15, 35]), (40, 30)))  # centers at 10, 30, 50
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
