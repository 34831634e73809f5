"""A large view → scores in overlapping tiles, with exactly the scores of one pass.

The layers of a scorer hold some forty times the floats of the view, so it is they, not the view, that would fill the
memory. Along each side the scores a ≤ i < b come from the pixels

    [a · stride − before, (b − 1) · stride + size − before)

of the view, and what lies beyond the view is its border repeated: the padding of one pass, and nowhere but there. Where
a gradient is asked for, a tile's layers are forgotten and computed again on the way back.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from saccade.extraction.receptive_field import ReceptiveField

# A view beyond this many pixels is scored in tiles: in one pass the paper's scorer would keep half a gigabyte for it.
LARGE_VIEW_PX = 2**20
# Side of a tile in view pixels: the overlap of 8 px costs 3%, the layers of a tile take 30 MB (120 MB with a gradient).
TILE_SIDE_PX = 512


def score_in_tiles(
    score: Callable[[Tensor], Tensor],
    view: Float[Tensor, "B C h w"],
    field: ReceptiveField,
    *,
    tile_px: int = TILE_SIDE_PX,
) -> Float[Tensor, "B sizes rows cols"]:
    """What `score`, layers with the receptive field `field`, gives on the whole padded view, tile by tile."""
    if field.inner:
        raise ValueError("layers that pad for themselves pad every tile: use a scorer of 'valid' layers, as `conv` is")
    rows, cols = (field.cells(side) for side in view.shape[-2:])
    step = max(tile_px // field.stride, 1)

    def part(one: Tensor, top: int, left: int) -> Tensor:
        return score(_cut(one, (top, min(top + step, rows)), (left, min(left + step, cols)), field))

    def band(one: Tensor, top: int) -> Tensor:
        return torch.cat([_without_memory(part, one, top, left) for left in range(0, cols, step)], dim=-1)

    return torch.cat([torch.cat([band(one, top) for top in range(0, rows, step)], dim=-2) for one in view.split(1)])


def _without_memory(part: Callable[..., Tensor], *arguments: object) -> Tensor:
    if not torch.is_grad_enabled():
        return part(*arguments)
    return checkpoint(part, *arguments, use_reentrant=False, preserve_rng_state=False)


def _cut(view: Tensor, rows: tuple[int, int], cols: tuple[int, int], field: ReceptiveField) -> Tensor:
    """The pixels that the scores in these rows and columns come from."""
    (top, bottom), (left, right) = _reach(rows, field), _reach(cols, field)
    height, width = view.shape[-2:]
    inside = view[..., max(top, 0) : bottom, max(left, 0) : right]  # a slice ends where the view does
    beyond = max(-left, 0), max(right - width, 0), max(-top, 0), max(bottom - height, 0)
    return F.pad(inside, beyond, mode="replicate") if any(beyond) else inside


def _reach(cells: tuple[int, int], field: ReceptiveField) -> tuple[int, int]:
    first = cells[0] * field.stride - field.before
    return first, first + field.size + (cells[1] - cells[0] - 1) * field.stride
