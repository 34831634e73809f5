"""image, view → what a scorer can learn before the first label: where the image has detail that its view lacks.

A scorer that starts out preferring background may stay there, because candidates far below the K-th best get no
gradient. Evidence worth a close look is often where the view loses most. So for a few hundred cheap steps the scorer
learns to predict, from the view alone, the squared residual image − upsampled view averaged over each candidate:

    for image in images:
        view = model.view(image)
        target = missing_detail(image, view, model.grid(image.shape[-2:]))
        label_free_loss(model.scorer(view).scores, target).backward()

One spot in a very large image is learnt faster with `focus`, which asks only where most detail is missing.

Of an image that is read in parts, the residual is taken at four times the view's resolution (or at the next finer level
that the file has), a few rows at a time: what the view loses, it loses mostly there, and a slide is not read whole.

Candidates of several sizes cannot be compared by their means, since the mean of a box is never above that of the best
of the small boxes in it; nor by their sums, which are never below. What tells is how much a candidate stands out among
those of its own size: detail in a spot does so most at the size of the spot. A smaller box shows no more than a larger
spot has everywhere, and a larger one dilutes a small spot. So the detail of every size is standardized, image by image.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from saccade.extraction import Grid, Grids
from saccade.images import ImageSource, SlideImage, Sources, view_size
from saccade.images.slide import Rows

FINER = 4
# Of the signs in the training images of speed limits, five patches where most detail is missing show whole, by this
# middle, by half of each side and by all of it: of 128 px 42, 32 and 48%; of 160 px 62, 49 and 57%; of 192 px 70, 68
# and 65% (2026-11-18).
MIDDLE = 0.75


def missing_detail(
    image: Float[Tensor, "B C H W"] | Sources,
    view: Float[Tensor, "B C h w"],
    grid: Grid | Grids,
    *,
    size: Int[Tensor, "B 2"] | None = None,
) -> Float[Tensor, "B N"]:
    """Mean squared residual between image and upsampled view, over the middle of each candidate (`MIDDLE` of its width
    and height), as far as it is inside the image.

    Candidates overlap, so that whatever is there lies in the middle of one of them, with all of it in the patch.
    Of several sizes each has the mean and the standard deviation of the first one over the image (see above).
    Outside the image nothing is missing: 0; with `size`, height and width of each image where the rest is padding,
    neither there nor at the edge that padding makes.

    >>> from saccade.images import make_view
    >>> image = torch.zeros(1, 1, 8, 16)
    >>> image[..., 9:13:2] = 1  # fine stripes on the right, which a view at 1/4 turns gray
    >>> grid = Grid(torch.tensor([0]), torch.tensor([0, 8]), (8, 8))
    >>> missing_detail(image, make_view(image, 1 / 4), grid).round(decimals=2)
    tensor([[0.0000, 0.1900]])
    """
    middles = [_middle(each) for each in grid.grids]
    if isinstance(image, Sources):
        details = [_streamed_detail(*one, middles) for one in zip(image.images, view.cpu(), strict=True)]
        return _compare([torch.stack(each).to(view) for each in zip(*details, strict=True)])
    upsampled = F.interpolate(view, size=image.shape[-2:], mode="bilinear", align_corners=False)
    detail = upsampled.sub_(image).square_().mean(dim=1)  # B H W; in place: fresh memory costs more than the sums
    if size is not None:
        detail = detail * _away_from_padding(size, image.shape[-2:], view.shape[-2:])
    return _compare([_mean_inside(detail, each) for each in middles])


def _compare(details: Sequence[Float[Tensor, "B n"]]) -> Float[Tensor, "B N"]:
    """The detail of every size, brought to the mean and the standard deviation that the first one has in each image."""
    stds, means = zip(*(torch.std_mean(each, dim=1, keepdim=True, correction=0) for each in details), strict=True)
    scaled = [
        means[0] + (each - mean) * (stds[0] / std.clamp(min=torch.finfo(std.dtype).tiny))
        for each, std, mean in zip(details[1:], stds[1:], means[1:], strict=True)
    ]
    return torch.cat([details[0], *scaled], dim=1)


def _streamed_detail(
    source: ImageSource, view: Float[Tensor, "C h w"], grids: Sequence[Grid]
) -> list[Float[Tensor, " n"]]:
    """Mean squared residual between a finer view and the upsampled view over each candidate of each grid."""
    scale = min(1.0, FINER * view.shape[-2] / source.size[0])
    (height, width), pieces = source.rows(scale) if isinstance(source, SlideImage) else _in_one(source, scale)
    covered = [_covered(grid, source.size, (height, width), view) for grid in grids]
    sums, top = [view.new_zeros(len(rows), width) for rows, _ in covered], 0
    for piece in pieces:
        bottom = top + piece.shape[1]
        detail = _upsample_rows(view, top, bottom, (height, width)).sub_(piece).square_().mean(dim=0)  # rows W
        for (rows, _), total in zip(covered, sums, strict=True):
            touched = rows[:, top:bottom].any(dim=1).nonzero().flatten()
            total[touched] += rows[touched, top:bottom] @ detail
        top = bottom
    return [
        (total @ cols.mT / _pixels(rows, cols)).flatten() for total, (rows, cols) in zip(sums, covered, strict=True)
    ]


def _in_one(source: ImageSource, scale: float) -> Rows:
    return Rows(view_size(source.size, scale), iter([source.view(scale)]))


def _upsample_rows(
    view: Float[Tensor, "C h w"], top: int, bottom: int, size: tuple[int, int]
) -> Float[Tensor, "C rows W"]:
    """Rows `top` to `bottom` of the view upsampled to `size`, as if the whole were."""
    place = ((torch.arange(top, bottom) + 0.5) * (view.shape[-2] / size[0]) - 0.5).clamp(min=0)
    first = place.long()
    narrow = torch.lerp(
        view[:, first], view[:, (first + 1).clamp(max=view.shape[-2] - 1)], (place - first)[:, None].to(view)
    )
    return F.interpolate(narrow[None], size=(bottom - top, size[1]), mode="bilinear", align_corners=False)[0]


def _away_from_padding(
    size: Int[Tensor, "B 2"], image_size: Sequence[int], view_size: Sequence[int]
) -> Bool[Tensor, "B H W"]:
    """Where the view mixes no padding into the picture: up to two of its pixels before the end."""
    kept = []
    for axis, (image_px, view_px) in enumerate(zip(image_size, view_size, strict=True)):
        end = torch.where(size[:, axis] < image_px, size[:, axis] - 2 * image_px // view_px, image_px)
        kept.append(torch.arange(image_px, device=size.device) < end[:, None])
    return kept[0][:, :, None] & kept[1][:, None, :]


def _middle(grid: Grid) -> Grid:
    height, width = (round(MIDDLE * side) for side in grid.patch)
    top, left = (grid.patch[0] - height) // 2, (grid.patch[1] - width) // 2
    return Grid(grid.top_px + top, grid.left_px + left, (height, width))


def label_free_loss(
    raw_scores: Float[Tensor, "B N"], target: Float[Tensor, "B N"], *, focus: float = 0.0
) -> Float[Tensor, ""]:
    """How far the scores are from telling where the target is high.

    focus = 0: mean squared error between the scores and the target, standardized per image: how much detail is missing
    differs between images, and only where it is missing matters.
    focus > 0: cross-entropy between the softmax of the scores and each candidate's share of target^focus. One spot
    among tens of thousands of candidates lies a hundred standard deviations above them: far for a score to grow,
    but only ten units on the scale of a softmax. With focus = 2 such a spot has about half of the shares.

    >>> label_free_loss(torch.tensor([[-1.0, 1.0]]), torch.tensor([[3.0, 7.0]]))
    tensor(0.)
    >>> target = torch.tensor([[1.0, 3.0]])
    >>> label_free_loss(2 * target.log(), target, focus=2.0)  # as low as it gets: the shares' entropy
    tensor(0.3251)
    """
    if focus:
        eps = torch.finfo(target.dtype).tiny
        shares = (focus * target.clamp(min=eps).log()).softmax(dim=1)  # in logarithms: squares of small numbers vanish
        return F.cross_entropy(raw_scores, shares)
    std, mean = torch.std_mean(target, dim=1, keepdim=True, correction=0)
    # An image without any contrast asks for equal scores.
    standardized = (target - mean) / std.clamp(min=torch.finfo(target.dtype).eps)
    return F.mse_loss(raw_scores, standardized)


def _mean_inside(values: Float[Tensor, "B H W"], grid: Grid) -> Float[Tensor, "B N"]:
    """Means over all candidates at once: a matrix says which rows each row of candidates covers, another the columns.

    An integral image would need doubles, because a candidate's sum is a small difference of sums over most of the
    image; it was also twenty times slower.
    """
    height, width = values.shape[-2:]
    rows, cols = _covered(grid, (height, width), (height, width), values)
    sums = rows @ values @ cols.mT  # B rows cols
    return (sums / _pixels(rows, cols)).flatten(1)


def _covered(
    grid: Grid, image_size: Sequence[int], pixels: Sequence[int], like: Tensor
) -> tuple[Float[Tensor, "rows H"], Float[Tensor, "cols W"]]:
    """Which rows of pixels each row of candidates covers, and which columns, as numbers `like` others."""
    rows = _covers(grid.top_px.to(like.device), grid.patch[0], image_size[0], pixels[0])
    cols = _covers(grid.left_px.to(like.device), grid.patch[1], image_size[1], pixels[1])
    return rows.to(like), cols.to(like)


def _pixels(rows: Float[Tensor, "rows H"], cols: Float[Tensor, "cols W"]) -> Float[Tensor, "rows cols"]:
    """How many each candidate covers, and 1 for none."""
    return (rows.sum(dim=1)[:, None] * cols.sum(dim=1)).clamp(min=1)


def _covers(first_px: Int[Tensor, " cells"], patch_px: int, image_px: int, pixels: int) -> Bool[Tensor, "cells pixels"]:
    """Whose middle lies in which candidate, if `pixels` pixels stand for the `image_px` of the image."""
    middle = (torch.arange(pixels, dtype=torch.float64, device=first_px.device) + 0.5) * (image_px / pixels)
    return (first_px[:, None] <= middle) & (middle < first_px[:, None] + patch_px)
