"""What a model says of each image, one row per image: the one table behind every number, plot and warning."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, distributed

from saccade.data.dataset import Batch
from saccade.evaluation.overlaps import HIT, best_overlap, mutual_overlap
from saccade.images import Sources
from saccade.output import Output
from saccade.preparation import center_corner
from saccade.system import System


class Predictions(NamedTuple):
    """A row per image. Where something does not apply (no boxes, no scorer), it is NaN.

    index:   the image's place in its data set.
    label:   what the task makes of its label, see `saccade.tasks`.
    hit:     the share of its boxes that a chosen patch shows; overlap the mean over its boxes (see `overlaps`).
    mutual_overlap: the mean IoU of two of its chosen patches: how much is looked at twice.
    entropy: of the softmax of its raw scores, divided by that of equal scores, log N: 0 sure of one place, 1 of none.
    hits:    the share of its boxes of each kind that a chosen patch shows, where boxes say what they show.
    centers: x and y of the chosen patches relative to the image's width and height; NaN in rows with fewer of them.

    Of a soft selection every candidate that is in a slot counts as chosen, however little of it there is.
    """

    index: Int[Tensor, " n"]
    label: Shaped[Tensor, "n ..."]
    logits: Float[Tensor, "n L"]
    hit: Float[Tensor, " n"]
    overlap: Float[Tensor, " n"]
    mutual_overlap: Float[Tensor, " n"]
    entropy: Float[Tensor, " n"]
    centers: Float[Tensor, "n K 2"]
    hits: Float[Tensor, "n kinds"]


def join(parts: Sequence[Predictions]) -> Predictions:
    """Predictions one after the other, in the order of the data set."""
    slots = max(part.centers.shape[1] for part in parts)
    parts = [part._replace(centers=_fill_up(part.centers, slots)) for part in parts]
    whole = Predictions(*(torch.cat(column) for column in zip(*parts, strict=True)))
    order = whole.index.argsort()
    return Predictions(*(column[order] for column in whole))


def _fill_up(centers: Float[Tensor, "n K 2"], slots: int) -> Float[Tensor, "n slots 2"]:
    return torch.nn.functional.pad(centers, (0, 0, 0, slots - centers.shape[1]), value=torch.nan)


@torch.no_grad()
def predict_batch(model: System, batch: Batch) -> Predictions:
    """What `model` says of a batch; images of different sizes are looked at without their padding.

    So an answer does not depend on which other images happened to be in the batch. Where the model looked is told in
    the image as it came, not in the center that its preparation cuts out.
    """
    preparation = model.config.preparation
    parts = []
    for height, width in batch.size.unique(dim=0).tolist():
        rows = (batch.size == batch.size.new_tensor([height, width])).all(dim=1).nonzero().flatten()
        # Sources of a batch are all of one size.
        image = batch.image if isinstance(batch.image, Sources) else batch.image[rows, :, :height, :width]
        seen: Any = model.take(preparation.see(image))
        output: Output = model(seen)
        if output.boxes is not None:
            corner = center_corner((height, width), (seen.shape[-2], seen.shape[-1]))
            output = output._replace(boxes=output.boxes + output.boxes.new_tensor(corner * 2))
        drawn = [_Drawn(batch.boxes[row], batch.kinds[row] if batch.kinds else None) for row in rows.tolist()]
        kinds = len(model.task.classes)
        parts.append(_rows(batch.index[rows], batch.label[rows], output, drawn, (height, width), kinds))
    return join(parts)


class _Drawn(NamedTuple):
    """The boxes of an image, and the class number of what each shows."""

    boxes: Int[Tensor, "R 4"]
    kinds: Int[Tensor, " R"] | None


def _rows(
    index: Tensor, label: Tensor, output: Output, drawn: Sequence[_Drawn], size: tuple[int, int], kinds: int
) -> Predictions:
    logits = output.logits.float()
    unknown = torch.full_like(logits[:, 0], torch.nan)
    if output.boxes is None:
        nowhere, never = logits.new_zeros(len(logits), 0, 2), unknown[:, None].repeat(1, kinds)
        return Predictions(index, label, logits, unknown, unknown, unknown, unknown, nowhere, never)
    used = output.used
    looked = [chosen[mine] for chosen, mine in zip(output.boxes, used, strict=True)]
    overlaps = [best_overlap(chosen, each.boxes.to(chosen)) for chosen, each in zip(looked, drawn, strict=True)]
    hit = torch.stack([(overlap >= HIT).float().mean() for overlap in overlaps])  # the mean of nothing is NaN
    hits = torch.stack([_hits(overlap, each.kinds, kinds) for overlap, each in zip(overlaps, drawn, strict=True)])
    overlap = torch.stack([overlap.mean() for overlap in overlaps])
    entropy = unknown if output.raw_scores is None else _relative_entropy(output.raw_scores.float())
    centers = (output.boxes[..., :2] + output.boxes[..., 2:]) / (2 * output.boxes.new_tensor([size[1], size[0]]))
    if not output.chooses:
        return Predictions(index, label, logits, hit, overlap, unknown, entropy, centers[:, :0], hits)
    mutual = torch.stack([mutual_overlap(chosen) for chosen in looked])
    centers = centers.masked_fill(~used[..., None], torch.nan)
    return Predictions(index, label, logits, hit, overlap, mutual, entropy, centers, hits)


def _hits(overlap: Float[Tensor, " R"], shows: Int[Tensor, " R"] | None, kinds: int) -> Float[Tensor, " kinds"]:
    """Of the boxes of each kind the share that is hit; NaN where there are none."""
    hit = (overlap >= HIT).float()
    shows = None if shows is None else shows.to(hit.device)
    each = [hit[:0] if shows is None else hit[shows == kind] for kind in range(kinds)]
    return torch.stack([of.mean() for of in each]) if each else hit.new_zeros(0)


def _relative_entropy(raw_scores: Float[Tensor, "B N"]) -> Float[Tensor, " B"]:
    log_p = raw_scores.log_softmax(dim=1)
    return -(log_p.exp() * log_p).sum(dim=1) / torch.log(log_p.new_tensor(log_p.shape[1]))


def gather(parts: Sequence[Predictions]) -> Predictions:
    """The parts of all processes as one table, the same in each; alone, just the parts joined."""
    parts = [Predictions(*(column.cpu() for column in part)) for part in parts]
    if distributed.is_available() and distributed.is_initialized():
        everyone: list[Any] = [None] * distributed.get_world_size()
        distributed.all_gather_object(everyone, parts)  # of any length: a process may have had no image
        parts = [part for theirs in everyone for part in theirs]
    return join(parts)
