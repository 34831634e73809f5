"""images → images: the paper's augmentations, on whole batches, on the device that trains.

| set      | training                                                            | evaluation                 |
|----------|---------------------------------------------------------------------|----------------------------|
| traffic  | shift by ±100 px; a·x + b, a ∈ [0.8, 1.2], b ∈ [−0.1, 0.1], p = 0.8 | nothing                    |
| billiard | shift by ±50 px                                                     | nothing                    |
| cub      | random crop of 448², flip with p = 0.5                              | center crop of 448²        |

CUB's images come resized to 600², and in evaluation their center is cut out, by the model's `Preparation`. Pixels come
in [0, 1] and stay there: the paper's [−1, 1] is what a backbone with mean and s.d. 0.5 makes of them itself. Boxes are
left alone: they only measure where a model looks, and that is measured on images that were not augmented.
"""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from torchvision.transforms import v2

from saccade.images.regions import cut_regions
from saccade.registry import build, register

# torchvision's v2 draws once per call and so does the same to every image of a batch. Here every image has a draw of
# its own; v2 does what is not random (Resize, CenterCrop, Normalize) and joins the steps (Compose).


def translate(
    image: Float[Tensor, "B C H W"], *, max_px: int = 100, generator: Generator | None = None
) -> Float[Tensor, "B C H W"]:
    """Pad with zeros and crop to the same size: each image moves by up to `max_px` along both axes.

    >>> translate(torch.rand(8, 3, 96, 128), max_px=10, generator=torch.Generator().manual_seed(0)).shape
    torch.Size([8, 3, 96, 128])
    """
    corners = _draw((len(image), 2), generator) * (2 * max_px + 1) - max_px
    return _crop(image, corners, (image.shape[-2], image.shape[-1]))


def jitter_color(
    image: Float[Tensor, "B C H W"],
    *,
    gain: tuple[float, float] = (0.8, 1.2),
    offset: tuple[float, float] = (-0.1, 0.1),
    probability: float = 0.8,
    generator: Generator | None = None,
) -> Float[Tensor, "B C H W"]:
    """a·x + b, one a out of `gain` and one b out of `offset` per image; with 1 − `probability` the image itself.

    Nothing is clamped: pixels may leave [0, 1], and values that differ stay different.
    """
    chance, place_a, place_b = _draw((3, len(image), 1, 1, 1), generator)
    changed = chance < probability
    a = torch.where(changed, gain[0] + (gain[1] - gain[0]) * place_a, 1.0)
    b = torch.where(changed, offset[0] + (offset[1] - offset[0]) * place_b, 0.0)
    return torch.addcmul(b.to(image), image, a.to(image))


def crop(
    image: Float[Tensor, "B C H W"], *, size: tuple[int, int] = (448, 448), generator: Generator | None = None
) -> Float[Tensor, "B C P Q"]:
    """A part of `size` (height, width) from a place of its own in each image."""
    room = image.shape[-1] - size[1], image.shape[-2] - size[0]  # x y
    if min(room) < 0:
        raise ValueError(
            f"no {size[0]}×{size[1]} part fits into an image of {image.shape[-2]}×{image.shape[-1]} px: resize it first"
        )
    place = _draw((len(image), 2), generator)
    return _crop(image, place * (place.new_tensor(room) + 1), size)


def flip(
    image: Float[Tensor, "B C H W"], *, probability: float = 0.5, generator: Generator | None = None
) -> Float[Tensor, "B C H W"]:
    """Left and right exchanged in each image with `probability`."""
    flipped = _draw((len(image), 1, 1, 1), generator) < probability
    return torch.where(flipped.to(image.device), image.flip(-1), image)


def _draw(shape: tuple[int, ...], generator: Generator | None) -> Tensor:
    """Uniform in [0, 1), where the generator is: with one on the CPU, the same on every training device."""
    return torch.rand(shape, generator=generator, device=generator.device if generator else None)


def _crop(image: Tensor, corners: Tensor, size: tuple[int, int]) -> Tensor:
    """One part per image, `corners` being its left and top pixel (B 2), zero where it leaves the image."""
    return cut_regions(image, corners.floor().long()[:, None], size)[:, 0]


class Translate(nn.Module):
    """`translate` as a step."""

    def __init__(self, max_px: int = 100, *, generator: Generator | None = None):
        super().__init__()
        self.max_px, self.generator = max_px, generator

    def forward(self, image: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
        """Each image moved."""
        return translate(image, max_px=self.max_px, generator=self.generator)


class JitterColor(nn.Module):
    """`jitter_color` as a step."""

    def __init__(
        self,
        gain: tuple[float, float] = (0.8, 1.2),
        offset: tuple[float, float] = (-0.1, 0.1),
        probability: float = 0.8,
        *,
        generator: Generator | None = None,
    ):
        super().__init__()
        self.ranges = {"gain": gain, "offset": offset, "probability": probability}
        self.generator = generator

    def forward(self, image: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
        """Each image in other light."""
        return jitter_color(image, **self.ranges, generator=self.generator)


class Crop(nn.Module):
    """`crop` as a step."""

    def __init__(self, size: tuple[int, int] = (448, 448), *, generator: Generator | None = None):
        super().__init__()
        self.size, self.generator = size, generator

    def forward(self, image: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C P Q"]:
        """A part of each image."""
        return crop(image, size=self.size, generator=self.generator)


class Flip(nn.Module):
    """`flip` as a step."""

    def __init__(self, probability: float = 0.5, *, generator: Generator | None = None):
        super().__init__()
        self.probability, self.generator = probability, generator

    def forward(self, image: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
        """About half of the images mirrored."""
        return flip(image, probability=self.probability, generator=self.generator)


@register("augmentation", "none")
def no_augmentation() -> nn.Module:
    """Images as they are."""
    return nn.Identity()


@register("augmentation", "shift")
def shift(max_px: int, *, generator: Generator | None = None) -> nn.Module:
    """Translation alone."""
    return Translate(max_px, generator=generator)


@register("augmentation", "shift_and_light")
def shift_and_light(max_px: int, *, generator: Generator | None = None) -> nn.Module:
    """Translation and color."""
    return v2.Compose([Translate(max_px, generator=generator), JitterColor(generator=generator)])


@register("augmentation", "traffic")
def traffic(*, generator: Generator | None = None) -> nn.Module:
    """The paper's for traffic signs."""
    return shift_and_light(100, generator=generator)


@register("augmentation", "billiard")
def billiard(*, generator: Generator | None = None) -> nn.Module:
    """The paper's for billiard tables."""
    return shift(50, generator=generator)


@register("augmentation", "cub")
def crop_and_flip(*, crop: tuple[int, int] | None, generator: Generator | None = None) -> nn.Module:
    """The paper's for birds: a crop of `crop` (height, width) pixels from anywhere, flipped or not."""
    if crop is None:
        raise ValueError("the augmentation cub crops: say how large with model.preparation.crop, such as [448, 448]")
    return v2.Compose([Crop(crop, generator=generator), Flip(generator=generator)])


def build_augmentation(spec: Mapping[str, Any], *, crop: tuple[int, int] | None = None) -> nn.Module:
    """What a recipe names, a name and its options; drawn from torch's own generator, which training seeds every step.

    crop: that of the model's preparation, for those that take their part from anywhere instead of the center.

    >>> build_augmentation({"name": "shift", "pixels": 13})
    Traceback (most recent call last):
    ValueError: augmentation 'shift' has no option 'pixels': it takes max_px
    """
    return build("augmentation", spec, crop=crop, generator=None)
