"""scores, boxes → Selection: top-K with non-maximum suppression inside the perturbation: non-overlapping patches.

Y_σ = E_Z[ Y(s + σZ) ], Y the indicator of the K picks of greedy non-maximum suppression, slots in index order. The
paper says that suppression cannot be made differentiable its way, for want of a linear program. None is needed: the
smoothing makes the expectation of any function of the scores differentiable; `diverse_gradients` says how.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from saccade.registry import register
from saccade.selection.candidates import Candidates
from saccade.selection.diverse_estimators import GRADIENTS
from saccade.selection.draws import Draws, find_support, noise_chunks
from saccade.selection.estimators import Perturbation, mean_selection
from saccade.selection.noise import NOISES, draw_seed
from saccade.selection.normalize import OUT_OF_REACH, inside_of, put_out_of_reach, scale_gradient
from saccade.selection.refusals import check_draws, check_k, check_scores, check_slots
from saccade.selection.selection import Selection, identity_selection, zero_gradient
from saccade.selection.selector import Selector
from saccade.selection.support import uncompiled
from saccade.selection.suppression import (
    LeaveOneOut,
    Picks,
    Run,
    among_the_best,
    best_apart,
    look_up,
    make_field,
    near_the_top_apart,
)

GradientName = Literal["conditional", "score"]


def hard_diverse_topk(
    scores: Float[Tensor, "B N"],
    k: int,
    boxes: Int[Tensor, "N 4"],
    *,
    max_overlap: float = 0.25,
    inside: Bool[Tensor, "B N"] | None = None,
) -> Selection:
    """The K picks of greedy non-maximum suppression in index order; among equal scores the lower index wins.

    inside: candidates that may be picked; the others are picked only where there are fewer than K of these.

    >>> boxes = torch.tensor([[0, 0, 4, 4], [1, 0, 5, 4], [4, 0, 8, 4]])
    >>> hard_diverse_topk(torch.tensor([[0.8, 0.9, 0.1]]), 2, boxes).index
    tensor([[1, 2]])
    """
    _check(scores, k, boxes, max_overlap)
    best = best_apart(scores, k, boxes, max_overlap=max_overlap, inside=inside)
    return identity_selection(best.sort(dim=1).values, scores.dtype)


@uncompiled
def diverse_topk(
    scores: Float[Tensor, "B N"],
    k: int,
    boxes: Int[Tensor, "N 4"],
    *,
    sigma: float,
    num_samples: int = 500,
    max_overlap: float = 0.25,
    gradient: GradientName = "conditional",
    inside: Bool[Tensor, "B N"] | None = None,
    generator: torch.Generator | None = None,
) -> Selection:
    """The mean of `num_samples` index-sorted greedy selections of scores + σ · normal noise.

    boxes:       left, top, right, bottom of each candidate, the same for all images.
    sigma:       noise level in units of the scores; 0 gives `hard_diverse_topk` with zero gradient.
    max_overlap: the highest IoU of two picks of one draw; 1 gives `perturbed_topk`. Where fewer than K candidates lie
                 so far apart, the best of the others fill up.
    gradient:    "conditional" (default) or "score", both unbiased; score takes less time and varies far more.
    inside:      candidates that may be picked, as in `hard_diverse_topk`.
    generator:   where the randomness comes from; the same state gives the same answer.

    >>> boxes = torch.tensor([[0, 0, 4, 4], [1, 0, 5, 4], [4, 0, 8, 4]])
    >>> diverse_topk(torch.tensor([[0.8, 0.9, 0.1]]), 2, boxes, sigma=0.01).dense(3)
    tensor([[[0., 1., 0.],
             [0., 0., 1.]]])
    """
    _check(scores, k, boxes, max_overlap)
    check_draws(sigma, num_samples, gradient, GRADIENTS)
    with torch.autocast(scores.device.type, enabled=False):
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        if sigma < torch.finfo(scores.dtype).tiny or k == scores.shape[1]:
            return zero_gradient(hard_diverse_topk(scores, k, boxes, max_overlap=max_overlap, inside=inside), scores)
        if inside is not None:
            scores = put_out_of_reach(scores, inside, margin=OUT_OF_REACH * max(1.0, sigma))
        seed, estimate = draw_seed(generator), GRADIENTS[gradient]
        how = k, sigma, num_samples, max_overlap, gradient, seed
        past, run = _perturb(scores.detach(), boxes.to(scores), inside, *how)
        return mean_selection(scores, past, lambda grad, past: estimate.gradient(grad, past, run))


def _perturb(
    scores: Tensor,
    boxes: Tensor,
    inside: Tensor | None,
    k: int,
    sigma: float,
    num_samples: int,
    max_overlap: float,
    gradient: str,
    seed: int,
) -> tuple[Perturbation, Picks | LeaveOneOut]:
    """All draws, and what the gradient must know of each."""
    noise, solve = NOISES["normal"], GRADIENTS[gradient].run
    reach = {"sigma": sigma, "max_overlap": max_overlap, "noise": noise}
    kept = near_the_top_apart(scores, k, boxes, inside=inside, **reach)  # B U
    kept_scores = scores.gather(1, kept)
    field = make_field(boxes[kept], inside if inside is None else inside.gather(1, kept))
    image = torch.arange(len(kept), device=kept.device)
    runs = []
    for _, z in noise_chunks(kept_scores, num_samples=num_samples, noise=noise, seed=seed):
        values = z.mul_(sigma).add_(kept_scores).flatten(0, 1)  # m·B U
        rows = image.repeat(len(z))
        runs.append(among_the_best(solve, values, field, rows, passes=k + 1, max_overlap=max_overlap))
    support, run = _onto_support(_join(runs, len(kept)), kept_scores)
    draws = Draws(run.index, run.value[..., k - 1], run.value[..., k])
    return Perturbation(kept, kept_scores, support, draws, sigma, noise, seed), run


def _join(runs: Sequence[Run], batch: int) -> Run:
    """The chunks' columns, m·B …, as one run with B M … columns."""
    columns = (torch.cat(column) for column in zip(*runs, strict=True))
    return type(runs[0])(*(column.unflatten(0, (-1, batch)).transpose(0, 1).contiguous() for column in columns))


def _onto_support(run: Run, kept_scores: Tensor) -> tuple[Tensor, Run]:
    """The kept candidates that occur in any draw, with or without a pick, B S; and the run in their terms."""
    occurs = torch.zeros_like(kept_scores, dtype=torch.bool)
    for column in run:
        if column.dtype == torch.long:
            occurs.scatter_(1, column.flatten(1), True)
    support, rank = find_support(occurs, kept_scores, int(occurs.sum(dim=1).max()))
    return support, type(run)(*(look_up(rank, column) if column.dtype == torch.long else column for column in run))


def _check(scores: Tensor, k: int, boxes: Tensor, max_overlap: float) -> None:
    check_scores(scores)
    check_k(k, scores.shape[1])
    if boxes.shape != (scores.shape[1], 4):
        raise ValueError(
            f"boxes have shape {tuple(boxes.shape)}, expected ({scores.shape[1]}, 4): one box (left, top, right, "
            "bottom) for each candidate, as grid.boxes(torch.arange(n)) gives them"
        )
    _check_overlap(max_overlap)


def _check_overlap(max_overlap: float) -> None:
    if not 0 <= max_overlap <= 1:
        raise ValueError(f"max_overlap is {max_overlap}, expected an IoU from 0 (no common pixel) to 1 (no matter)")


@register("selection", "diverse")
class DiverseTopK(nn.Module, Selector):
    """Perturbed top-K of patches that hardly overlap: `diverse_topk` in training, `hard_diverse_topk` in evaluation.

    `sigma` may be changed between steps: see `linear_decay`. `gradient_per_sigma` is that of `PerturbedTopK`.
    """

    k: int
    sigma: float

    def __init__(
        self,
        k: int,
        *,
        sigma: float = 0.05,
        num_samples: int = 500,
        max_overlap: float = 0.25,
        gradient: GradientName = "conditional",
        gradient_per_sigma: bool = False,
    ):
        super().__init__()
        check_slots(k)
        check_draws(sigma, num_samples, gradient, GRADIENTS)
        _check_overlap(max_overlap)
        self.k = k
        self.sigma = sigma
        self.num_samples = num_samples
        self.max_overlap = max_overlap
        self.gradient: GradientName = gradient
        self.gradient_per_sigma = gradient_per_sigma

    def forward(self, scores: Float[Tensor, "B N"], grid: Candidates | None = None) -> Selection:
        """Select softly in training mode, hard in evaluation mode; `grid` (`Candidates`) says where candidates lie."""
        if grid is None:
            raise ValueError("no grid: to keep patches apart it must know where candidates lie; pass a Grid or Anchors")
        boxes = grid.boxes(torch.arange(scores.shape[1], device=scores.device))
        if not self.training:
            return hard_diverse_topk(scores, self.k, boxes, max_overlap=self.max_overlap, inside=inside_of(grid))
        return diverse_topk(
            scale_gradient(scores, self.sigma) if self.gradient_per_sigma else scores,
            self.k,
            boxes,
            sigma=self.sigma,
            num_samples=self.num_samples,
            max_overlap=self.max_overlap,
            gradient=self.gradient,
            inside=inside_of(grid),
        )
