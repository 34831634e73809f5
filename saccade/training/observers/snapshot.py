"""Predictions on the validation images → `Snapshot`: the few numbers that tell whether a run is healthy."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from saccade.evaluation import Predictions
from saccade.extraction import Grid, Grids
from saccade.tasks.task import Task


class Places(NamedTuple):
    """Where cells of candidates are, relative to the image's width and height; `half` is half the smallest patch."""

    centers: Float[Tensor, "N 2"]
    half: Float[Tensor, " 2"]

    def at_edge(self, centers: Float[Tensor, "*shape 2"]) -> Bool[Tensor, "*shape"]:
        """Which centers lie so near to a border that a part of any patch there shows nothing."""
        return ((centers < self.half) | (centers > 1 - self.half)).any(dim=-1)


class Snapshot(NamedTuple):
    """The health of a run at one validation; NaN where something does not apply or is not known.

    progress:   share of the steps with labels that are done.
    favorite:   and what follows to prior_loss: see `saccade.tasks.task.Health`.
    agreement:  take a chosen patch: the share of images that look at that place too; by_chance that of random choices.
    at_edge:    share of chosen patches that leave the image or touch its border; edge_by_chance that of all candidates.
    gradient:   norm of the scorer's gradient relative to what it was at first; sigma likewise.
    finite:     whether every loss since the validation before was a number.
    """

    progress: float
    images: int
    favorite: str
    favorite_share: float
    skill: float
    luck: float
    loss: float
    prior_loss: float
    finite: bool = True
    hit_rate: float = math.nan
    entropy: float = math.nan
    agreement: float = math.nan
    by_chance: float = math.nan
    at_edge: float = math.nan
    edge_by_chance: float = math.nan
    gradient: float = math.nan
    sigma: float = math.nan

    @property
    def guesses(self) -> bool:
        """No better than an answer that never saw an image. The loss counts too: with rare classes a model may rank
        images well before it dares to name the rare class.
        """
        return self.skill < max(self.luck, 0.1) and self.loss >= 0.97 * self.prior_loss

    @property
    def fails(self) -> bool:
        """Answers are nearer to guessing than to right, and patches miss most of the boxes if there are any."""
        return self.skill < 0.5 and not self.hit_rate >= 0.5


def find_places(grid: Grid | Grids, image_size: tuple[int, int]) -> Places:
    """The cells of an image of `image_size` (height, width), at which lie candidates of one size or several."""
    size, first = torch.tensor([image_size[1], image_size[0]]), grid.grids[0]
    boxes = first.boxes(torch.arange(first.num_candidates)).cpu()
    height, width = (min(sides) for sides in zip(*(each.patch for each in grid.grids), strict=True))
    return Places((boxes[:, :2] + boxes[:, 2:]) / (2 * size), torch.tensor([width, height]) / (2 * size))


def take_snapshot(
    predictions: Predictions,
    *,
    task: Task,
    progress: float,
    places: Places | None = None,
    finite: bool = True,
    gradient: float = math.nan,
    sigma: float = math.nan,
) -> Snapshot:
    """What `predictions` on the validation images tell; without `places` nothing is asked about where it looked."""
    health = task.health(predictions.logits.float().cpu(), predictions.label.cpu())
    snapshot = Snapshot(
        progress=progress,
        images=len(predictions.label),
        favorite=health.favorite,
        favorite_share=health.favorite_share,
        skill=health.skill,
        luck=health.luck,
        loss=float(health.loss),
        prior_loss=health.prior_loss,
        finite=finite and bool(health.loss.isfinite()),
        hit_rate=float(predictions.hit.nanmean()),
    )
    if places is None:
        return snapshot
    centers = predictions.centers.float().cpu()
    chosen = ~centers.isnan().any(dim=-1)  # n K; images of a soft selection have more or fewer
    return snapshot._replace(
        entropy=float(predictions.entropy.nanmean()),
        agreement=_agreement(centers[chosen], images=len(centers)),
        by_chance=float(chosen.float().sum(dim=1).mean()) / len(places.centers),
        at_edge=float(places.at_edge(centers[chosen]).float().mean()),
        edge_by_chance=float(places.at_edge(places.centers).float().mean()),
        gradient=gradient,
        sigma=sigma,
    )


def _agreement(centers: Float[Tensor, "patches 2"], images: int) -> float:
    """Places are told apart to a fiftieth of the image, whatever slot they are in: one image that chose otherwise
    shifts the slots of its other patches, and would hide that they are those of everybody else.
    """
    column, row = (centers.clamp(0, 1) * 50).round().long().unbind(dim=-1)
    place = row * 51 + column
    share = (place.bincount() / images).clamp(max=1)
    return float(share[place].mean())
