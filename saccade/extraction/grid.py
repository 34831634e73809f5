"""Candidate index → pixels: a grid of equally sized patches over the image.

Two geometries place patch (i, j):

aligned    centered on the receptive field of score (i, j): center = (i · stride + offset) / view scale, from the
           scorer's own kernels, strides and padding. What a score saw is what its patch shows. The default.
stretched  as the paper's released code has it: stride = ⌊H / rows⌋ image pixels, patch centered on its cell. The grid
           is stretched over the whole image although the receptive fields are not, so patches drift away from what was
           scored (by up to 15 px at the paper's sizes). For exact reproduction.
"""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from saccade.extraction.receptive_field import ReceptiveField
from saccade.images import Sources, cut_regions


class Grid(NamedTuple):
    """Patches of `patch` (height, width) pixels; candidate i · cols + j has its corner at (left_px[j], top_px[i]).

    inside: in a batch of images padded to one size, which candidates lie in each picture; None without padding.
    """

    top_px: Int[Tensor, " rows"]
    left_px: Int[Tensor, " cols"]
    patch: tuple[int, int]
    inside: Bool[Tensor, "B N"] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of candidates."""
        return self.top_px.shape[0], self.left_px.shape[0]

    @property
    def num_candidates(self) -> int:
        """N."""
        return self.top_px.shape[0] * self.left_px.shape[0]

    @property
    def grids(self) -> tuple["Grid", ...]:
        """The grid of each size, as of `Grids`: here there is one size."""
        return (self,)

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of the cells that the scores belong to: candidates' centers lie in their middles.

        >>> Grid(torch.tensor([0]), torch.tensor([-5, 15, 35]), (40, 30)).extent  # centers at 10, 30, 50
        (0.0, 0.0, 60.0, 40.0)
        """
        (left, right), (top, bottom) = _span(self.left_px, self.patch[1]), _span(self.top_px, self.patch[0])
        return left, top, right, bottom

    def chart(self, scores: Float[Tensor, " N"]) -> Float[Tensor, "rows cols"]:
        """The scores as a map to look at."""
        return scores.reshape(self.shape)

    def left_top_px(self, index: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape 2"]:
        """Upper left corner of each candidate; may lie outside the image."""
        cols = self.left_px.shape[0]
        return torch.stack([self.left_px[index % cols], self.top_px[index // cols]], dim=-1)

    def boxes(self, index: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape 4"]:
        """Left, top, right, bottom of each candidate in image pixels (right and bottom exclusive)."""
        corner = self.left_top_px(index)
        height, width = self.patch
        return torch.cat([corner, corner + corner.new_tensor([width, height])], dim=-1)

    def centered_in(self, size: Int[Tensor, "B 2"]) -> Bool[Tensor, "B N"]:
        """Which candidates have their center inside a picture of `size` (height, width) at the top left."""
        height, width = self.patch
        low = 2 * self.top_px + height < 2 * size[:, :1]  # B rows
        left = 2 * self.left_px + width < 2 * size[:, 1:]  # B cols
        return (low[:, :, None] & left[:, None, :]).flatten(1)

    def padded(self, size: Int[Tensor, "B 2"]) -> "Grid":
        """The same candidates in a batch of pictures of `size`, which selectors then tell from the padding around."""
        return self._replace(inside=self.centered_in(size))

    def read(self, image: Float[Tensor, "B C H W"] | Sources, index: Int[Tensor, "B S"]) -> Float[Tensor, "B S C P Q"]:
        """The pixels of each candidate, zero outside the image."""
        return cut_regions(image, self.left_top_px(index), self.patch)


def _span(corners: Int[Tensor, " cells"], patch_px: int) -> tuple[float, float]:
    first, last = float(corners[0]) + patch_px / 2, float(corners[-1]) + patch_px / 2
    # A single cell says nothing of its width; its patch does.
    cell = (last - first) / (len(corners) - 1) if len(corners) > 1 else patch_px
    return first - cell / 2, last + cell / 2


def aligned_corners(image_px: int, view_px: int, patch_px: int, field: ReceptiveField) -> Int[Tensor, " cells"]:
    """First pixels along one side of patches centered on what each score saw."""
    cell = torch.arange(field.cells(view_px), dtype=torch.float64)
    center_px = (cell * field.stride + field.offset) * (image_px / view_px)
    return (center_px - patch_px / 2 + 0.5).floor().long()


def stretched_corners(image_px: int, view_px: int, patch_px: int, field: ReceptiveField) -> Int[Tensor, " cells"]:
    """First pixels along one side of patches centered on cells stretched over the image, as released."""
    cells = field.cells(view_px)
    stride_px = image_px // cells
    return torch.arange(cells) * stride_px - (patch_px - stride_px) // 2


Geometry = Literal["aligned", "stretched"]
GEOMETRIES = {"aligned": aligned_corners, "stretched": stretched_corners}


def make_grid(
    geometry: Geometry,
    *,
    image_size: tuple[int, int],
    view_size: tuple[int, int],
    patch: tuple[int, int],
    field: ReceptiveField,
    device: torch.device | str = "cpu",
) -> Grid:
    """The grid of an image of `image_size` whose view of `view_size` is scored with receptive field `field`."""
    corners = GEOMETRIES[geometry]
    top_px, left_px = (corners(*sides, field).to(device) for sides in zip(image_size, view_size, patch, strict=True))
    return Grid(top_px, left_px, patch)
