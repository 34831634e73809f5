"""What happens to an image before the model sees it, and back: boxes in pixels of the image as it came.

    image ─ resize, or to microns ─▶ shown ─ crop of the center ─▶ seen by the model

It belongs to the model: whoever shows it an image (data set, predictor, report, page, export) does it by this object.
This module imports no torch: recipes have a preparation, and the command line reads them for `--help`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Int

from saccade.options import make

Size = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """Height and width always in this order.

    Args:
        resize: height and width every image is resized to; without it each keeps its size
        crop: height and width of the center that is then cut out (in training by an augmentation, from anywhere)
        max_pixels: refuse larger images that must be decoded whole (default: 268 million)
        mpp: microns per pixel at which slides are seen, whatever they were scanned at
        stream: read only the view and the patches of an image, for slides and tiled pyramids too large to decode
    """

    resize: Size | None = None
    crop: Size | None = None
    max_pixels: int | None = None
    mpp: float | None = None
    stream: bool = False

    def __post_init__(self) -> None:
        for name in ("resize", "crop"):
            if (size := getattr(self, name)) is not None:
                _check_size(name, size)
        if self.max_pixels is not None and self.max_pixels < 1:
            raise ValueError(f"preparation.max_pixels is {self.max_pixels}: expected at least 1")
        if self.mpp is not None and not 0 < self.mpp < math.inf:
            raise ValueError(f"preparation.mpp is {self.mpp}: expected microns per pixel, such as 0.5")
        if self.mpp and self.resize:
            raise ValueError("preparation.mpp and resize both say how large tissue is seen: leave out one or the other")
        if self.stream and (self.resize or self.crop):
            raise ValueError(
                "preparation.stream reads parts of an image, and preparation.resize and crop need all of it: leave out "
                "one or the other"
            )
        if self.resize and self.crop and (self.crop[0] > self.resize[0] or self.crop[1] > self.resize[1]):
            raise ValueError(f"preparation.crop is {self.crop}, larger than what is left by resize, {self.resize}")

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> "Preparation":
        """From what JSON or YAML make of one: they have lists.

        >>> Preparation.from_tree({"resize": [600, 800]}).resize
        (600, 800)
        """
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in tree.items()}
        return make("preparation", cls, values)

    def of(self, shown: Size) -> "Preparation":
        """That of one image of which is known how large it is shown: of a slide only its file can tell.

        >>> Preparation(mpp=0.5).of((60, 60)).place_back(np.array([[0, 0, 8, 8]]), (120, 120))
        array([[ 0,  0, 16, 16]])
        """
        return replace(self, resize=shown, mpp=None, stream=False) if self.mpp else self

    def shown_size(self, size: Size) -> Size:
        """Height and width of an image of `size` after the resize."""
        return self.resize or size

    def seen_size(self, size: Size) -> Size:
        """Height and width of what the model sees of an image of `size`."""
        return self.crop or self.shown_size(size)

    def see(self, shown: Any) -> Any:
        """What the model sees of images that were resized already: their center, or all of them.

        Images are a tensor B C H W, or `Sources`, which are never cropped.

        >>> Preparation(crop=(2, 2)).see(np.arange(16).reshape(1, 1, 4, 4))
        array([[[[ 5,  6],
                 [ 9, 10]]]])
        """
        if self.crop is None:
            return shown
        (height, width), (left, top) = self.crop, center_corner(shown.shape[-2:], self.crop)
        if left < 0 or top < 0:
            raise ValueError(
                f"no {height}×{width} part fits into an image of {shown.shape[-2]}×{shown.shape[-1]} px: resize it "
                "first (preparation.resize)"
            )
        return shown[..., top : top + height, left : left + width]

    def place_back(self, boxes: Int[np.ndarray, "*shape 4"], size: Size) -> Int[np.ndarray, "*shape 4"]:
        """Boxes in what the model saw, in pixels of the image of `size` (height, width) it was made of.

        >>> Preparation(resize=(60, 60), crop=(40, 40)).place_back(np.array([[0, 0, 8, 8]]), (120, 60))
        array([[10, 20, 18, 36]])
        """
        scale_x, scale_y, left, top = self.mapping(size)
        return ((boxes + [left, top] * 2) * np.array([scale_x, scale_y] * 2)).round().astype(np.int64)

    def mapping(self, size: Size) -> tuple[float, float, int, int]:
        """(scale x, scale y, left, top): a place x in what the model saw is (x + left) · scale x in the image."""
        shown = self.shown_size(size)
        left, top = center_corner(shown, self.seen_size(size))
        return size[1] / shown[1], size[0] / shown[0], left, top


def _check_size(name: str, size: Any) -> None:
    whole = isinstance(size, Sequence) and len(size) == 2 and all(isinstance(side, int) and side >= 1 for side in size)
    if not whole:
        raise ValueError(
            f"preparation.{name} is {size}: expected a height and a width of at least one pixel, such as [960, 1280]"
        )


def center_corner(whole: Sequence[int], part: Sequence[int]) -> tuple[int, int]:
    """Left and top pixel of the `part` (height, width) that is cut from the center of the `whole`.

    >>> center_corner((600, 600), (448, 448))
    (76, 76)
    """
    return round((whole[1] - part[1]) / 2), round((whole[0] - part[0]) / 2)
