"""Candidate index → pixels: anchors of many sizes and shapes over one score vector, as NTS-Net has them.

Three levels look at the view in steps of 32, 64 and 128 pixels. An anchor of level l, scale c and aspect ratio a has

    h = int(size_l · c / √a),    w = int(size_l · c · √a),    center = (cell + ½) · step_l,

with sizes 48, 96, 192 in image pixels, c ∈ {2^⅓, 2^⅔} (and 1 on the last level), a ∈ {0.667, 1, 1.5}. Candidates are
numbered level by level, then by type (scale, aspect ratio), row and column: 1176 + 294 + 144 = 1614 at 448².

Wherever it lies and whatever its shape, an anchor is read at one size, so that anchors can be mixed.
"""

import math
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from saccade.extraction.extract import extract
from saccade.images import Sources
from saccade.selection.selection import Selection

ASPECT_RATIOS = (0.667, 1.0, 1.5)
SIZES_PX = (48, 96, 192)
STEPS_PX = (32, 64, 128)  # in view pixels: the backbone's stride, and halved resolution twice
SCALES = ((2 ** (1 / 3), 2 ** (2 / 3)),) * 2 + ((1.0, 2 ** (1 / 3), 2 ** (2 / 3)),)
TYPES = tuple(len(scales) * len(ASPECT_RATIOS) for scales in SCALES)  # 6, 6, 9 anchors at each cell


class Anchors(NamedTuple):
    """N anchors, all read at the size `patch` (height, width).

    table:   left, top, right, bottom of each in image pixels; may reach outside the image.
    cells:   rows and columns of each level.
    step_px: height and width of a cell of the finest level in image pixels.
    inside:  in a batch of images padded to one size, which anchors lie in each picture; None without padding.
    """

    table: Int[Tensor, "N 4"]
    patch: tuple[int, int]
    cells: tuple[tuple[int, int], ...]
    step_px: tuple[float, float]
    inside: Bool[Tensor, "B N"] | None = None

    @property
    def num_candidates(self) -> int:
        """N."""
        return len(self.table)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of `chart`: those of the finest level."""
        return self.cells[0]

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Left, top, right, bottom of `chart` in image pixels; perhaps a little beyond the image."""
        (rows, cols), (height, width) = self.shape, self.step_px
        return 0.0, 0.0, cols * width, rows * height

    def boxes(self, index: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape 4"]:
        """Left, top, right, bottom of each anchor in image pixels (right and bottom exclusive)."""
        return self.table[index]

    def centered_in(self, size: Int[Tensor, "B 2"]) -> Bool[Tensor, "B N"]:
        """Which anchors have their center inside a picture of `size` (height, width) at the top left."""
        x, y = (self.table[:, :2] + self.table[:, 2:]).unbind(-1)  # twice the center
        return (y < 2 * size[:, :1]) & (x < 2 * size[:, 1:])

    def padded(self, size: Int[Tensor, "B 2"]) -> "Anchors":
        """The same anchors in a batch of pictures of `size`, which selectors then tell from the padding around."""
        return self._replace(inside=self.centered_in(size))

    def read(self, image: Float[Tensor, "B C H W"] | Sources, index: Int[Tensor, "B S"]) -> Float[Tensor, "B S C P Q"]:
        """The pixels of each anchor, zero outside the image, resized bilinearly to `patch`."""
        if isinstance(image, Sources):
            raise ValueError("anchors of many sizes are read from whole images: pass a tensor B 3 H W, not Sources")
        return resize_regions(image, self.boxes(index), self.patch)

    def chart(self, scores: Float[Tensor, " N"]) -> Float[Tensor, "rows cols"]:
        """A map to look at: the best score of any anchor at each cell of the finest level."""
        levels = scores.split([kinds * rows * cols for kinds, (rows, cols) in zip(TYPES, self.cells, strict=True)])
        maps = []
        for values, kinds, (rows, cols) in zip(levels, TYPES, self.cells, strict=True):
            best = values.reshape(kinds, rows, cols).amax(dim=0)
            maps.append(F.interpolate(best[None, None], size=self.shape, mode="nearest")[0, 0])
        return torch.stack(maps).amax(dim=0)


def make_anchors(
    image_size: tuple[int, int],
    view_size: tuple[int, int] | None = None,
    *,
    patch: tuple[int, int] = (224, 224),
    sizes: Sequence[int] = SIZES_PX,
    device: torch.device | str = "cpu",
) -> Anchors:
    """The anchors of an image whose view of `view_size` (default: the image itself) is scored.

    >>> anchors = make_anchors((448, 448))
    >>> anchors.num_candidates, anchors.cells
    (1614, ((14, 14), (7, 7), (4, 4)))
    >>> anchors.boxes(torch.tensor([0, 14 * 14, 1613]))  # the first of two types, and the very last
    tensor([[ -8, -21,  41,  53],
            [-14, -14,  46,  46],
            [262, 324, 635, 572]])
    """
    view_size = view_size or image_size
    cells = tuple((math.ceil(view_size[0] / step), math.ceil(view_size[1] / step)) for step in STEPS_PX)
    scale_y, scale_x = (image / view for image, view in zip(image_size, view_size, strict=True))
    tables = []
    for size, scales, step, (rows, cols) in zip(sizes, SCALES, STEPS_PX, cells, strict=True):
        y, x = ((torch.arange(n) + 0.5) * step * scale for n, scale in ((rows, scale_y), (cols, scale_x)))
        for scale, ratio in product(scales, ASPECT_RATIOS):
            height, width = int(size * scale / math.sqrt(ratio)), int(size * scale * math.sqrt(ratio))
            top, left = (y - height / 2 + 0.5).floor().long(), (x - width / 2 + 0.5).floor().long()
            top, left = (corner.flatten() for corner in torch.meshgrid(top, left, indexing="ij"))
            tables.append(torch.stack([left, top, left + width, top + height], dim=-1))
    return Anchors(torch.cat(tables).to(device), patch, cells, (STEPS_PX[0] * scale_y, STEPS_PX[0] * scale_x))


def resize_regions(
    image: Float[Tensor, "B C H W"], boxes: Int[Tensor, "B S 4"], size: tuple[int, int]
) -> Float[Tensor, "B S C P Q"]:
    """Regions of any size, zero outside the image, resized bilinearly to `size`: as if each were cut out first.

    >>> ramp = torch.arange(4.0).expand(1, 1, 4, 4)
    >>> resize_regions(ramp, torch.tensor([[[1, 0, 3, 2]]]), (1, 4))
    tensor([[[[[1.0000, 1.2500, 1.7500, 2.0000]]]]])
    """
    wide = image.to(torch.promote_types(image.dtype, torch.float32))  # half precision cannot tell pixels apart
    left, top, right, bottom = boxes.to(wide.dtype).unbind(-1)  # B S
    y = _sample_px(top, bottom, size[0])  # B S P
    x = _sample_px(left, right, size[1])  # B S Q
    # Pixel centers lie at (2 i + 1) / n − 1 for grid_sample, which blends with zeros beyond the border, as a
    # zero-padded image would. RoI align reads over the edge of the box instead.
    y, x = (2 * y + 1) / image.shape[-2] - 1, (2 * x + 1) / image.shape[-1] - 1
    places = torch.stack(torch.broadcast_tensors(x[..., None, :], y[..., :, None]), dim=-1)  # B S P Q 2
    regions = F.grid_sample(wide, rearrange(places, "b s p q xy -> b (s p) q xy"), align_corners=False)
    return rearrange(regions, "b c (s p) q -> b s c p q", p=size[0]).to(image.dtype)


def _sample_px(first: Float[Tensor, "B S"], end: Float[Tensor, "B S"], count: int) -> Float[Tensor, "B S count"]:
    """Where `count` samples of [first, end) lie, in pixel centers: evenly, and none beyond its outermost pixels."""
    place = (torch.arange(count, dtype=first.dtype, device=first.device) + 0.5) / count
    inner = (place * (end - first)[..., None] - 0.5).clamp(min=0)
    return first[..., None] + torch.minimum(inner, (end - first - 1)[..., None])


class AnchorExtraction(nn.Module):
    """`extract` from anchors, all read at `patch` pixels; `sizes` are their sizes in image pixels, level by level."""

    def __init__(self, patch: int = 224, sizes: Sequence[int] = SIZES_PX):
        super().__init__()
        if patch < 1:
            raise ValueError(f"patch is {patch}, expected one number of pixels ≥ 1: anchors are read as squares")
        if len(sizes) != len(SIZES_PX) or min(sizes) < 2:
            raise ValueError(f"sizes are {sizes}, expected three, each at least 2 px, such as {list(SIZES_PX)}")
        self.patch, self.sizes = (patch, patch), tuple(sizes)

    def grid(
        self, image_size: tuple[int, int], view_size: tuple[int, int], device: torch.device | str = "cpu"
    ) -> Anchors:
        """The candidates of an image."""
        return make_anchors(image_size, view_size, patch=self.patch, sizes=self.sizes, device=device)

    def forward(
        self, image: Float[Tensor, "B C H W"], selection: Selection, anchors: Anchors
    ) -> Float[Tensor, "B K C P Q"]:
        """The K parts of every image."""
        return extract(image, selection, anchors)
