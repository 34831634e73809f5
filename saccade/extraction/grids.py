"""Candidate index → pixels: one grid for each size of candidates, all over the same cells.

Candidate z · cells + i lies at cell i and has size z. Whatever its size, it is read at the size `patch`, so that slots
can mix candidates: as if its box were cut out, with zeros outside the image, and resized with antialiasing. Only what
lies in the box is read, at full resolution.
"""

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from saccade.extraction.grid import Grid
from saccade.images import Sources

AT_ONCE_BYTES = 2**24  # of pixels that wait to be resized: of large boxes there is one at a time


class Grids(NamedTuple):
    """Candidates of several sizes at the same cells, all read at the size `patch` (height, width).

    grids:  one for each size, all with the same rows and columns.
    inside: in a batch of images padded to one size, which candidates lie in each picture; None without padding.
    """

    grids: tuple[Grid, ...]
    patch: tuple[int, int]
    inside: Bool[Tensor, "B N"] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of cells, and of `chart`."""
        return self.grids[0].shape

    @property
    def num_candidates(self) -> int:
        """N."""
        return len(self.grids) * self.grids[0].num_candidates

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of the cells that the scores belong to."""
        return self.grids[0].extent

    def chart(self, scores: Float[Tensor, " N"]) -> Float[Tensor, "rows cols"]:
        """A map to look at: the best score of any size at each cell; NaN where no size has one.

        >>> grid = Grid(torch.tensor([0]), torch.tensor([0, 8]), (8, 8))
        >>> Grids((grid, grid), (8, 8)).chart(torch.tensor([0.1, 0.5, 0.3, torch.nan]))
        tensor([[0.3000, 0.5000]])
        """
        return reduce(torch.fmax, scores.unflatten(0, (len(self.grids), -1))).reshape(self.shape)

    def boxes(self, index: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape 4"]:
        """Left, top, right, bottom of each candidate in image pixels (right and bottom exclusive)."""
        size, cell = self._split(index)
        return _pick([grid.boxes(cell) for grid in self.grids], size[..., None])

    def centered_in(self, size: Int[Tensor, "B 2"]) -> Bool[Tensor, "B N"]:
        """Which candidates have their center inside a picture of `size` (height, width) at the top left."""
        return torch.cat([grid.centered_in(size) for grid in self.grids], dim=1)

    def padded(self, size: Int[Tensor, "B 2"]) -> "Grids":
        """The same candidates in a batch of pictures of `size`, which selectors then tell from the padding around."""
        return self._replace(inside=self.centered_in(size))

    def read(self, image: Float[Tensor, "B C H W"] | Sources, index: Int[Tensor, "B S"]) -> Float[Tensor, "B S C P Q"]:
        """The pixels of each candidate, zero outside the image, resized to `patch`."""
        size, cell = self._split(index)
        if torch.compiler.is_compiling():  # a graph has no values to look at: every cell is read at every size
            read = [_resize(grid.read(image, cell), self.patch) for grid in self.grids]
            return _pick(read, size[..., None, None, None])
        return torch.cat([self._read_one(image[b : b + 1], size[b], cell[b]) for b in range(len(index))])

    def _read_one(
        self, image: Float[Tensor, "1 C H W"] | Sources, size: Int[Tensor, " S"], cell: Int[Tensor, " S"]
    ) -> Float[Tensor, "1 S C P Q"]:
        """Size by size, and then in their order again."""
        read, places = [], []
        for number, grid in enumerate(self.grids):
            box_bytes = image.shape[1] * grid.patch[0] * grid.patch[1] * image.dtype.itemsize
            for some in (size == number).nonzero().flatten().split(max(1, AT_ONCE_BYTES // box_bytes)):
                if len(some):
                    read.append(_resize(grid.read(image, cell[None, some]), self.patch))
                    places.append(some)
        return torch.cat(read, dim=1)[:, torch.cat(places).argsort()]

    def _split(self, index: Int[Tensor, "*shape"]) -> tuple[Int[Tensor, "*shape"], Int[Tensor, "*shape"]]:
        """The number of the size, and the cell."""
        cells = self.grids[0].num_candidates
        return index // cells, index % cells


def _pick(values: Sequence[Shaped[Tensor, "*shape"]], size: Int[Tensor, "*broadcast"]) -> Shaped[Tensor, "*shape"]:
    """Of the values for each size those of `size`."""
    picked = values[0]
    for number, value in enumerate(values[1:], start=1):
        picked = torch.where(size == number, value, picked)
    return picked


def _resize(regions: Float[Tensor, "B S C h w"], size: tuple[int, int]) -> Float[Tensor, "B S C P Q"]:
    if tuple(regions.shape[-2:]) == size:
        return regions
    exact = regions.to(torch.promote_types(regions.dtype, torch.float32))  # antialiasing knows no half precision
    flat = rearrange(exact, "b s c h w -> (b s) c h w")
    resized = F.interpolate(flat, size=size, mode="bilinear", antialias=True).to(regions.dtype)
    return rearrange(resized, "(b s) c p q -> b s c p q", s=regions.shape[1])
