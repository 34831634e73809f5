"""View, grid → the same grid without the candidates that show nothing but white glass.

Most of a slide is empty, and a scorer that is new may look anywhere. A pixel is glass where all its colors are bright;
a candidate is left out where less than a twentieth of it is anything else. What is left out is no candidate, as what
lies in the padding of a batch is none (`Grid.inside`): no score and no noise lifts it.
"""

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor

from saccade.extraction.grid import Grid
from saccade.extraction.grids import Grids
from saccade.selection.candidates import Candidates

GLASS = 0.84  # of full brightness, the darkest color of a pixel of empty glass; stained tissue is far below
LEAST = 0.05  # of a candidate


def find_tissue(view: Float[Tensor, "B 3 h w"]) -> Bool[Tensor, "B h w"]:
    """Where a view shows anything but bright glass.

    >>> find_tissue(torch.tensor([0.95, 0.94, 0.96])[None, :, None, None]).item()
    False
    """
    return view.amin(dim=1) < GLASS


def share_of(mask: Bool[Tensor, "B h w"], grid: Candidates, image_size: tuple[int, int]) -> Float[Tensor, "B N"]:
    """How much of each candidate, as far as it lies in the image, the mask covers; the mask spans the image."""
    height, width = mask.shape[-2:]
    scale = torch.tensor([width / image_size[1], height / image_size[0]] * 2, device=mask.device)
    boxes = grid.boxes(torch.arange(grid.num_candidates, device=mask.device)) * scale
    low, high = boxes[:, :2].floor(), boxes[:, 2:].ceil()
    end = torch.tensor([width, height], device=mask.device)
    (left, top), (right, bottom) = (torch.minimum(edge.clamp(min=0), end).long().T for edge in (low, high))
    # The sum over a box is that of four corners of the sums from the upper left; in double, as whole numbers.
    sums = F.pad(mask.double().cumsum(1).cumsum(2), (1, 0, 1, 0))
    inside = sums[:, bottom, right] - sums[:, top, right] - sums[:, bottom, left] + sums[:, top, left]
    return (inside / ((right - left) * (bottom - top)).clamp(min=1)).float()


def on_tissue(
    grid: Grid | Grids, view: Float[Tensor, "B 3 h w"], image_size: tuple[int, int], *, k: int
) -> Grid | Grids:
    """The grid with the candidates that show tissue alone; of a slide that has fewer than `k` of them, all."""
    shown = share_of(find_tissue(view), grid, image_size) >= LEAST
    if grid.inside is not None:
        shown = shown & grid.inside
    too_few = rearrange(shown.sum(dim=1) < k, "b -> b 1")
    # Not torch.where, which runtimes of exported graphs lack for truth values.
    return grid._replace(inside=shown | (too_few if grid.inside is None else too_few & grid.inside))
