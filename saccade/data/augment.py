"""Pictures → pictures: what training images go through, on whole batches, on the device that trains.

    shift     moved by up to max_px along both axes, zeros behind it
    color     a·x + b, one a and one b for each picture
    crop      a part of each picture from a place of its own
    flip      left and right exchanged, or not
    rotate90  turned by 0, 90, 180 or 270 degrees

Names with commas between them are done one after the other: `flip,rotate90,crop,color`. torchvision's transforms draw
once per call and so do the same to every image of a batch; here every image has a draw of its own. Boxes move along,
and so do the sizes of pictures that are padded to that of the largest.

The paper's are such chains:

| set      | training                                                            | evaluation                 |
|----------|---------------------------------------------------------------------|----------------------------|
| traffic  | shift by ±100 px; a·x + b, a ∈ [0.8, 1.2], b ∈ [−0.1, 0.1], p = 0.8 | nothing                    |
| billiard | shift by ±50 px                                                     | nothing                    |
| cub      | random crop of 448², flip with p = 0.5                              | center crop of 448²        |

CUB's images come resized to 600², and in evaluation their center is cut out, by the model's `Preparation`. Pixels come
in [0, 1] and stay near it: the paper's [−1, 1] is what a backbone with mean and s.d. 0.5 makes of them itself.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Generator, Tensor

from saccade.images.regions import cut_regions
from saccade.options import check_options
from saccade.registry import build, part_options, parts, register

Size = tuple[int, int]
Boxes = Int[Tensor, "R 4"]


class Pictures(NamedTuple):
    """A batch of images at the top left of H×W, the rest of it zero.

    boxes: of each, left, top, right, bottom, right and bottom exclusive; what leaves a picture is cut off.
    size:  its height and width.
    """

    image: Float[Tensor, "B C H W"]
    boxes: tuple[Boxes, ...]
    size: Int[Tensor, "B 2"]

    @classmethod
    def of(cls, image: Float[Tensor, "B C H W"], boxes: tuple[Boxes, ...] = ()) -> "Pictures":
        """Images without padding, and without boxes unless there are some."""
        nothing = torch.zeros(0, 4, dtype=torch.int64)
        return cls(image, boxes or (nothing,) * len(image), torch.tensor([image.shape[-2:]] * len(image)))

    @property
    def padded(self) -> bool:
        """Whether they are of several sizes."""
        return bool((self.size != self.size.new_tensor(self.image.shape[-2:])).any())

    @property
    def sizes(self) -> list[Size]:
        """Height and width of each."""
        return [(height, width) for height, width in self.size.tolist()]


class Step:
    """A function of pictures with its options; the draws of a `generator`, or torch's own."""

    def __init__(self, act: Callable[..., Pictures], *, generator: Generator | None = None, **options: Any):
        self.act, self.generator, self.options = act, generator, options

    def __call__(self, pictures: Pictures) -> Pictures:
        """The pictures after this step."""
        return self.act(pictures, **self.options, generator=self.generator)


class Chain:
    """Steps one after the other."""

    def __init__(self, *steps: Callable[[Pictures], Pictures]):
        self.steps = steps

    def __call__(self, pictures: Pictures) -> Pictures:
        """The pictures after all steps."""
        for step in self.steps:
            pictures = step(pictures)
        return pictures


# ---- the steps


def shift(pictures: Pictures, *, max_px: int = 100, generator: Generator | None = None) -> Pictures:
    """Pad with zeros and crop to the same size: each picture moves by up to `max_px` along both axes.

    >>> moved = shift(Pictures.of(torch.rand(8, 3, 96, 128)), max_px=10, generator=torch.Generator().manual_seed(0))
    >>> moved.image.shape
    torch.Size([8, 3, 96, 128])
    """
    corners = (_draw((len(pictures.image), 2), generator) * (2 * max_px + 1) - max_px).floor().long()
    return _cut(pictures, corners, pictures.sizes, pictures.image.shape[-2:])


def color(
    pictures: Pictures,
    *,
    gain: tuple[float, float] = (0.8, 1.2),
    offset: tuple[float, float] = (-0.1, 0.1),
    probability: float = 0.8,
    generator: Generator | None = None,
) -> Pictures:
    """a·x + b, one a out of `gain` and one b out of `offset` per picture; with 1 − `probability` the picture itself.

    Nothing is clamped: pixels may leave [0, 1], and values that differ stay different.
    """
    image = pictures.image
    chance, place_a, place_b = _draw((3, len(image), 1, 1, 1), generator)
    changed = chance < probability
    a = torch.where(changed, gain[0] + (gain[1] - gain[0]) * place_a, 1.0)
    b = torch.where(changed, offset[0] + (offset[1] - offset[0]) * place_b, 0.0)
    return pictures._replace(image=torch.addcmul(b.to(image), image, a.to(image)))


def cut_part(
    pictures: Pictures, *, size: Size | None = None, share: float = 0.9, generator: Generator | None = None
) -> Pictures:
    """A part of each picture from a place of its own: of `size` (height, width), or a `share` of both sides."""
    parts = [size or (max(round(share * h), 1), max(round(share * w), 1)) for h, w in pictures.sizes]
    for (height, width), part in zip(pictures.sizes, parts, strict=True):
        if part[0] > height or part[1] > width:
            raise ValueError(
                f"no {part[0]}×{part[1]} part fits into an image of {height}×{width} px: resize it first "
                "(model.preparation.resize)"
            )
    room = (pictures.size - pictures.size.new_tensor(parts)).flip(1)  # x y
    place = _draw((len(parts), 2), generator)
    canvas = max(height for height, _ in parts), max(width for _, width in parts)
    return _cut(pictures, (place * (room.to(place) + 1)).floor().long(), parts, canvas)


def flip(pictures: Pictures, *, generator: Generator | None = None) -> Pictures:
    """Left and right exchanged in half of the pictures."""
    flipped = (_draw((len(pictures.image), 1, 1, 1), generator) < 0.5).flatten().tolist()
    image, boxes = pictures.image.clone(), list(pictures.boxes)
    for number, (height, width) in enumerate(pictures.sizes):
        if flipped[number]:
            image[number, :, :height, :width] = pictures.image[number, :, :height, :width].flip(-1)
            left, top, right, bottom = boxes[number].unbind(1)
            boxes[number] = torch.stack([width - right, top, width - left, bottom], dim=1)
    return Pictures(image, tuple(boxes), pictures.size)


def rotate90(pictures: Pictures, *, generator: Generator | None = None) -> Pictures:
    """Each picture turned by 0, 90, 180 or 270 degrees, counterclockwise.

    Pictures that are no squares are turned upright or on their sides all together: a batch of both would be padded.
    """
    turns = (_draw((len(pictures.image) + 1,), generator) * 4).floor().long()
    if not all(height == width for height, width in [*pictures.sizes, pictures.image.shape[-2:]]):
        turns[:-1] = turns[:-1] // 2 * 2 + turns[-1] % 2
    *each, whole = turns.tolist()
    stood_up = pictures.image.shape[-2:] if whole % 2 == 0 else pictures.image.shape[-2:][::-1]
    image, boxes, sizes = _empty(pictures.image, (stood_up[0], stood_up[1])), [], []
    for number, ((height, width), turn) in enumerate(zip(pictures.sizes, each, strict=True)):
        turned = torch.rot90(pictures.image[number, :, :height, :width], turn, (-2, -1))
        image[number, :, : turned.shape[-2], : turned.shape[-1]] = turned
        boxes.append(_turn(pictures.boxes[number], (height, width), turn))
        sizes.append([*turned.shape[-2:]])
    return Pictures(image, tuple(boxes), pictures.size.new_tensor(sizes))


def _turn(boxes: Boxes, size: Size, times: int) -> Boxes:
    """Boxes in a picture of `size` after `times` quarter turns to the left."""
    for number in range(times):
        width = size[1 - number % 2]
        left, top, right, bottom = boxes.unbind(1)
        boxes = torch.stack([top, width - right, bottom, width - left], dim=1)
    return boxes


def _draw(shape: tuple[int, ...], generator: Generator | None) -> Tensor:
    """Uniform in [0, 1), where the generator is: with one on the CPU, the same on every training device."""
    return torch.rand(shape, generator=generator, device=generator.device if generator else None)


def _cut(pictures: Pictures, corners: Int[Tensor, "B 2"], sizes: list[Size], canvas: Sequence[int]) -> Pictures:
    """One part of each of `sizes`, `corners` being its left and top pixel, zero where it leaves the picture."""
    image = rearrange(cut_regions(pictures.image, corners[:, None], (canvas[0], canvas[1])), "b 1 c h w -> b c h w")
    boxes = []
    for number, (drawn, corner, (height, width)) in enumerate(zip(pictures.boxes, corners, sizes, strict=True)):
        image[number, :, height:] = 0
        image[number, :, :, width:] = 0
        moved = drawn - corner.to(drawn).repeat(2)
        moved = torch.minimum(moved.clamp(min=0), moved.new_tensor([width, height] * 2))
        boxes.append(moved[(moved[:, 2] > moved[:, 0]) & (moved[:, 3] > moved[:, 1])])
    return Pictures(image, tuple(boxes), pictures.size.new_tensor(sizes))


def _empty(image: Tensor, size: Size) -> Tensor:
    """Zeros of another size in the image's own memory format."""
    channels_last = image.is_contiguous(memory_format=torch.channels_last)
    zeros = image.new_zeros(*image.shape[:2], *size)
    return zeros.to(memory_format=torch.channels_last) if channels_last else zeros


# ---- by name


@register("augmentation", "none")
def make_nothing() -> Chain:
    """Images as they are."""
    return Chain()


@register("augmentation", "shift")
def make_shift(max_px: int, *, generator: Generator | None = None) -> Step:
    """Moved by up to `max_px`, zeros behind it."""
    return Step(shift, max_px=max_px, generator=generator)


@register("augmentation", "color")
def make_color(*, generator: Generator | None = None) -> Step:
    """In other light: a·x + b."""
    return Step(color, generator=generator)


@register("augmentation", "crop")
def make_crop(share: float = 0.9, *, crop: Size | None = None, generator: Generator | None = None) -> Step:
    """A part from anywhere: `share` of both sides, or as large as `model.preparation.crop`."""
    if not 0 < share <= 1:
        raise ValueError(f"augmentation 'crop': share is {share}, expected a share of the sides above 0 and up to 1")
    return Step(cut_part, size=crop, share=share, generator=generator)


@register("augmentation", "flip")
def make_flip(*, generator: Generator | None = None) -> Step:
    """Left and right exchanged, or not."""
    return Step(flip, generator=generator)


@register("augmentation", "rotate90")
def make_rotate90(*, generator: Generator | None = None) -> Step:
    """Turned by 0, 90, 180 or 270 degrees."""
    return Step(rotate90, generator=generator)


@register("augmentation", "shift_and_light")
def shift_and_light(max_px: int, *, generator: Generator | None = None) -> Chain:
    """`shift,color`, as recipes of this project call it."""
    return Chain(make_shift(max_px, generator=generator), make_color(generator=generator))


@register("augmentation", "traffic")
def traffic(*, generator: Generator | None = None) -> Chain:
    """The paper's for traffic signs."""
    return shift_and_light(100, generator=generator)


@register("augmentation", "billiard")
def billiard(*, generator: Generator | None = None) -> Step:
    """The paper's for billiard tables."""
    return make_shift(50, generator=generator)


@register("augmentation", "cub")
def crop_and_flip(*, crop: Size | None, generator: Generator | None = None) -> Chain:
    """The paper's for birds: a crop of `crop` (height, width) pixels from anywhere, flipped or not."""
    if crop is None:
        raise ValueError("the augmentation cub crops: say how large with model.preparation.crop, such as [448, 448]")
    return Chain(make_crop(crop=crop, generator=generator), make_flip(generator=generator))


def build_augmentation(spec: Mapping[str, Any], *, crop: Size | None = None) -> Callable[[Pictures], Pictures]:
    """What a recipe names, one or several with commas, and their options; drawn from torch's own generator, which
    training seeds every step.

    crop: that of the model's preparation, for those that take their part from anywhere instead of the center.

    >>> build_augmentation({"name": "shift,flip", "pixels": 13})
    Traceback (most recent call last):
    ValueError: augmentation 'shift,flip' has no option 'pixels': it takes max_px
    """
    names = [name.strip() for name in str(spec.get("name")).split(",")]
    options = {key: value for key, value in spec.items() if key != "name"}
    takes = {name: part_options("augmentation", name) for name in names if name in parts("augmentation")}
    check_options(f"augmentation {spec.get('name')!r}", [each for part in takes.values() for each in part], options)
    chosen = [
        {"name": name, **{o.name: options[o.name] for o in takes.get(name, []) if o.name in options}} for name in names
    ]
    return Chain(*(build("augmentation", each, crop=crop, generator=None) for each in chosen))
