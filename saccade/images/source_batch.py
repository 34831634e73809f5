"""Sources in the place of a batch: what the model needs of images that are too large to be a tensor B C H W.

A model looks at the view of an image, at a few of its regions, and perhaps at all of it at the size of a patch.
`Sources` gives these three for a batch of images of one size, and reads nothing else: in evaluation the view and K
regions, in training the view and the support of the selection.
"""

from collections.abc import Sequence
from copy import copy
from typing import Any, Protocol, overload, runtime_checkable

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor


@runtime_checkable
class ImageSource(Protocol):
    """An image that can be looked at from afar and in parts; pixels are in [0, 1].

    They are RGB, unless it says with an attribute `channels` how many numbers each has.
    """

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in pixels."""
        ...

    def view(self, scale: float) -> Float[Tensor, "C h w"]:
        """The whole image, antialiased, at `view_size(size, scale)`."""
        ...

    def regions(self, boxes: Int[Tensor, "R 4"]) -> Float[Tensor, "R C P Q"]:
        """The pixels inside equally sized boxes (left, top, right, bottom), zero outside the image."""
        ...


class Sources:
    """A batch of sources of one size, which `PatchSelectionModel` takes like a tensor B C H W.

    What is read comes to `device`, where the model is. The last view is kept: a loader's worker may look ahead.

    >>> from saccade.images import open_image
    >>> images = Sources([open_image(torch.rand(3, 600, 800)) for _ in range(2)])
    >>> images.shape, images.view(1 / 4).shape
    (torch.Size([2, 3, 600, 800]), torch.Size([2, 3, 150, 200]))
    """

    def __init__(
        self,
        images: Sequence[ImageSource],
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ):
        self.images = tuple(images)
        self.device, self.dtype = torch.device(device), dtype
        sizes = {image.size for image in self.images}
        if len(sizes) != 1:
            came = ", ".join(f"{height}×{width}" for height, width in sorted(sizes)) or "none"
            raise ValueError(
                f"sizes of the images in a batch (height × width) are {came}: expected one size for all of them; read "
                "images of another size in a batch of their own, for instance with a batch of 1"
            )
        channels = {int(getattr(image, "channels", 3)) for image in self.images}
        if len(channels) != 1:
            raise ValueError(
                f"channels of the images in a batch are {', '.join(map(str, sorted(channels)))}: expected one number "
                "for all of them; make RGB of gray pixels with pixels.expand(3, -1, -1)"
            )
        self.shape = torch.Size((len(self.images), channels.pop(), *sizes.pop()))
        self._view: tuple[float, Tensor] | None = None

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, rows: slice) -> "Sources":
        return Sources(self.images[rows], device=self.device, dtype=self.dtype)

    @property
    def ndim(self) -> int:
        """4, as of a tensor B C H W."""
        return len(self.shape)

    def is_floating_point(self) -> bool:
        """Whether pixels come as floats: always."""
        return self.dtype.is_floating_point

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> "Sources":
        """The same images, read for a model on another device or of another dtype."""
        moved = copy(self)
        moved.device, moved.dtype = torch.device(device), dtype or self.dtype
        return moved

    def view(self, scale: float) -> Float[Tensor, "B C h w"]:
        """All images, antialiased, at `view_size` of their size."""
        if self._view is None or self._view[0] != scale:
            views = [image.view(scale) for image in self.images]
            # One view of a slide may take hundreds of megabytes: none of it is copied.
            self._view = scale, _stack(views)
        return self._view[1].to(self.device, self.dtype)

    def regions(self, left_top_px: Int[Tensor, "B R 2"], size: tuple[int, int]) -> Float[Tensor, "B R C P Q"]:
        """Regions of `size` (height, width) whose left and top pixels are `left_top_px`, zero outside the image."""
        corners = left_top_px.cpu()
        boxes = torch.cat([corners, corners + corners.new_tensor([size[1], size[0]])], dim=-1)  # B R 4
        regions = [image.regions(chosen) for image, chosen in zip(self.images, boxes, strict=True)]
        return _stack(regions).to(self.device, self.dtype)


def _stack(parts: Sequence[Float[Tensor, "... C H W"]]) -> Float[Tensor, "B ... C H W"]:
    """Channels last, which convolutions like best; a single one as it is."""
    if len(parts) == 1:
        return parts[0][None]
    return torch.stack([part.movedim(-3, -1) for part in parts]).movedim(-1, -3)


@overload
def unit_range(image: Tensor) -> Tensor: ...


@overload
def unit_range(image: Sources) -> Sources: ...


def unit_range(image: UInt8[Tensor, "*B C H W"] | Float[Tensor, "*B C H W"] | Sources) -> Any:
    """Bytes → floats in [0, 1], wherever they are: what the model takes. Floats and sources are that already."""
    if isinstance(image, Sources) or image.is_floating_point():
        return image
    return image.float().div_(255)
