"""`Output`, and the image behind it → `Look`: where a model looked, in pixels of the file."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float, Int, UInt8
from PIL import Image
from torch import Tensor

from saccade.extraction import extract
from saccade.extraction.anchors import resize_regions
from saccade.images import ImageSource, Sources
from saccade.output import Output
from saccade.preparation import Preparation, Size
from saccade.selection import Selection, normalize_scores
from saccade.tasks.task import Task

SHOWN_PX = 2000  # longest side of a picture as it is shown
Edges = tuple[float, float, float, float]


class Look(NamedTuple):
    """Where a model looked in one image. Whatever it does not have is empty: a CNN has neither scores nor boxes.

    size:       height and width of the image as it came; all places are in its pixels.
    boxes:      left, top, right, bottom, right and bottom exclusive, best first. They may reach over the border, where
                the model saw zeros.
    box_scores: of each box, as the selection saw them; empty for a system that does not score places, and where crops
                are blends of many boxes.
    strength:   in [0, 1], how much of each box went into the crops.
    scores:     in [0, 1], one per cell of a map that spans `extent` (left, top, right, bottom; perhaps a little beyond
                the image); NaN where there was nothing to choose, as on the white glass of a slide.
    crops:      what is in the boxes or, where slots are soft, in the slots.
    picture:    the whole image, as large as it is ever shown.
    truth:      boxes that somebody drew around the evidence.
    evidence:   what each box adds to each logit (`System.evidence`), where it was asked.
    """

    size: Size
    boxes: Int[np.ndarray, "S 4"] = np.zeros((0, 4), np.int64)
    box_scores: Float[np.ndarray, " scored"] = np.zeros(0, np.float32)
    strength: Float[np.ndarray, " S"] = np.zeros(0, np.float32)
    scores: Float[np.ndarray, "rows cols"] = np.zeros((0, 0), np.float32)
    extent: Edges = (0.0, 0.0, 0.0, 0.0)
    crops: UInt8[np.ndarray, "K P Q 3"] = np.zeros((0, 1, 1, 3), np.uint8)
    picture: UInt8[np.ndarray, "h w 3"] = np.zeros((0, 0, 3), np.uint8)
    truth: Int[np.ndarray, "R 4"] = np.zeros((0, 4), np.int64)
    evidence: Float[np.ndarray, "said L"] = np.zeros((0, 0), np.float32)


def look_at(
    output: Output,
    row: int = 0,
    *,
    size: Size,
    preparation: Preparation | None = None,
    seen: Float[Tensor, "B C H W"] | Sources | None = None,
    evidence: Float[Tensor, "B S L"] | None = None,
) -> Look:
    """Where the model looked in image `row` of a batch: the places it chose, best first; none if it looks everywhere.

    size:        of the image as it came, before `preparation`.
    seen:        what the model saw of the batch; with it the look has crops.
    evidence:    what `System.evidence` says of the batch; with it the look has that of its boxes.
    """
    preparation = preparation or Preparation()
    if not output.chooses or output.boxes is None:
        return Look(size)
    best, order = best_first(output), best_order(output)
    boxes, box_scores = (each[row, : int(output.used[row].sum())] for each in best)
    chart, extent = _chart(output, row, preparation, size)
    return Look(
        size,
        boxes=preparation.place_back(boxes.cpu().numpy(), size),
        box_scores=box_scores.detach().cpu().numpy(),
        strength=np.ones(len(boxes), np.float32),
        scores=chart,
        extent=extent,
        evidence=Look(size).evidence if evidence is None else _evidence(evidence[row], order[row, : len(boxes)]),
        crops=Look(size).crops if seen is None else _read_crops(output, row, order[row, : len(boxes)], seen),
    )


def look_at_slots(
    output: Output,
    row: int = 0,
    *,
    size: Size,
    seen: Float[Tensor, "B C H W"] | Sources,
    preparation: Preparation | None = None,
) -> Look:
    """As `look_at`, of the slots as they are in training: boxes are as strong as their weight, crops blends of them."""
    preparation = preparation or Preparation()
    if output.selection is None or output.boxes is None or output.grid is None or output.selection.hard:
        return look_at(output, row, size=size, preparation=preparation, seen=seen)
    selection = Selection(output.selection.index[row : row + 1], output.selection.weight[row : row + 1].detach())
    used = selection.used[0]
    chart, extent = _chart(output, row, preparation, size)
    return Look(
        size,
        boxes=preparation.place_back(output.boxes[row, used].cpu().numpy(), size),
        strength=selection.weight[0, :, used].sum(dim=0).clamp(0, 1).float().cpu().numpy(),
        scores=chart,
        extent=extent,
        crops=as_bytes(extract(seen[row : row + 1], selection, output.grid)[0]),
    )


def _evidence(evidence: Float[Tensor, "S L"], order: Int[Tensor, " used"]) -> Float[np.ndarray, "used L"]:
    return evidence[order].detach().float().cpu().numpy()


def best_order(output: Output) -> Int[Tensor, "B S"]:
    """The places of the boxes of a batch in `output.boxes`, in the order of `best_first`."""
    boxes, selection = output.boxes, output.selection
    assert boxes is not None
    if output.scores is None or selection is None:
        return torch.arange(boxes.shape[1], device=boxes.device).expand(len(boxes), -1)
    return _scores_of_boxes(output).sort(dim=1, descending=True, stable=True).indices


def best_first(output: Output) -> tuple[Int[Tensor, "B S 4"], Float[Tensor, "B scored"]]:
    """The boxes of a batch and their scores, best first; those that were not looked at come last.

    Where places are not scored, boxes come as they are, without scores.
    """
    boxes, selection = output.boxes, output.selection
    assert boxes is not None
    if output.scores is None or selection is None:
        return boxes, output.logits.new_zeros(len(boxes), 0).float()
    scores, order = _scores_of_boxes(output).sort(dim=1, descending=True, stable=True)
    return boxes.gather(1, order[..., None].expand(-1, -1, 4)), scores


def _scores_of_boxes(output: Output) -> Float[Tensor, "B S"]:
    assert output.boxes is not None
    assert output.scores is not None
    assert output.selection is not None
    # In training NTS-Net proposes more than it looks at.
    scores = output.scores.float().gather(1, output.selection.index[:, : output.boxes.shape[1]])
    return scores if output.selection.hard else scores.masked_fill(~output.used, -torch.inf)


def _chart(output: Output, row: int, preparation: Preparation, size: Size) -> tuple[np.ndarray, Edges]:
    """The scores as a map over the image, from 0 to 1 whatever the selector takes, and where it lies."""
    if output.scores is None or output.grid is None:
        return Look(size).scores, Look(size).extent
    scores = output.scores[row].detach().float().cpu()
    inside = output.grid.inside
    seen = torch.ones_like(scores, dtype=torch.bool) if inside is None else inside[row].cpu()
    if scores[seen].min() < 0 or scores[seen].max() > 1:
        scores[seen] = normalize_scores(scores[None, seen])[0]
    scores = scores.masked_fill(~seen, torch.nan)
    (left, top, right, bottom), (scale_x, scale_y, dx, dy) = output.grid.extent, preparation.mapping(size)
    extent = ((left + dx) * scale_x, (top + dy) * scale_y, (right + dx) * scale_x, (bottom + dy) * scale_y)
    return output.grid.chart(scores).numpy(), extent


def _read_crops(
    output: Output, row: int, order: Int[Tensor, " used"], seen: Tensor | Sources
) -> UInt8[np.ndarray, "used P Q 3"]:
    """What is in the boxes, as the model read it; glimpses of different sizes are brought to that of the largest."""
    image = seen[row : row + 1]
    if output.grid is not None and output.selection is not None:
        return as_bytes(output.grid.read(image, output.selection.index[row, order][None])[0])
    assert output.boxes is not None
    assert isinstance(image, Tensor)
    boxes = output.boxes[row, order]
    width, height = (int(side) for side in (boxes[:, 2:] - boxes[:, :2]).amax(dim=0))
    return as_bytes(resize_regions(image, boxes[None], (height, width))[0])


def make_picture(image: UInt8[Tensor, "3 H W"] | ImageSource) -> UInt8[np.ndarray, "h w 3"]:
    """All of an image, as large as it is ever shown."""
    if isinstance(image, Tensor):
        picture = Image.fromarray(rearrange(image, "c h w -> h w c").contiguous().numpy())
        picture.thumbnail((SHOWN_PX, SHOWN_PX), Image.Resampling.BOX)
        return np.array(picture)
    return as_bytes(image.view(min(1.0, SHOWN_PX / max(image.size)))[None])[0]


def as_bytes(pixels: Float[Tensor, "s c p q"]) -> UInt8[np.ndarray, "s p q c"]:
    """Pixels in [0, 1] as pictures have them."""
    return rearrange(pixels * 255, "s c p q -> s p q c").round().clamp(0, 255).byte().contiguous().cpu().numpy()


def speakers(evidence: Float[np.ndarray, "S L"], logits: dict[str, int]) -> list[tuple[str, ...]]:
    """Which of the names that were said each box speaks for; `logits` has the place of each name's logit.

    A box speaks for a name if what it adds to its logit is more than nothing, and at least half of what the box adds
    that adds most.

    >>> speakers(np.array([[2.0, 0.1], [1.5, -1.0], [0.2, 0.9]]), {"open": 0, "short": 1})
    [('open',), ('open',), ('short',)]
    """
    most = {name: evidence[:, place].max(initial=0.0) for name, place in logits.items()}
    return [
        tuple(name for name, place in logits.items() if row[place] > 0 and row[place] >= most[name] / 2)
        for row in evidence
    ]


def who_speaks(look: Look, task: Task, said: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """For which of the names that were said each box of a look speaks; nothing where its evidence is not known."""
    logits = {name: task.logit_of(name) for name in said}
    known = {name: place for name, place in logits.items() if place is not None}
    return tuple(speakers(look.evidence, known)) if look.evidence.size else ()
