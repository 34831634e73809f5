"""Augmentation: every picture has its own draw, within the paper's ranges, and the same one for the same generator.

Pixels and boxes are held against NumPy's own flips and turns.
"""

import numpy as np
import pytest
import torch
from torch import Generator, Tensor
from torch.nn.functional import pad
from torch.testing import assert_close

from saccade.data.augment import (
    Pictures,
    billiard,
    build_augmentation,
    color,
    crop_and_flip,
    cut_part,
    flip,
    rotate90,
    shift,
    traffic,
)
from saccade.preparation import Preparation


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def numbered(height: int, width: int, count: int) -> Tensor:
    """Images whose two channels hold 1 + each pixel's own row and column: B C H W; 0 is never inside."""
    rows = 1.0 + torch.arange(height)[:, None].expand(height, width)
    columns = 1.0 + torch.arange(width).expand(height, width)
    return torch.stack([rows, columns]).expand(count, 2, height, width)


def corners_of(parts: Tensor) -> Tensor:
    """Where the parts of numbered images begin (B 2: left, top), read from any pixel that is inside."""
    found = []
    for rows, columns in parts:
        y, x = torch.nonzero(rows)[0].tolist()
        found.append((columns[y, x].item() - 1 - x, rows[y, x].item() - 1 - y))
    return torch.tensor(found)


def test_translation_is_pad_and_crop_by_the_drawn_offset():
    image = torch.rand(20, 3, 40, 50, generator=seeded(1))
    moved = shift(Pictures.of(image), max_px=7, generator=seeded()).image
    corners = corners_of(shift(Pictures.of(numbered(40, 50, 20)), max_px=7, generator=seeded()).image).int().tolist()
    padded = pad(image, (7, 7, 7, 7))
    for result, source, (left, top) in zip(moved, padded, corners, strict=True):
        assert torch.equal(result, source[:, top + 7 : top + 47, left + 7 : left + 57])


def test_translations_are_uniform_over_all_offsets():
    corners = corners_of(shift(Pictures.of(numbered(9, 9, 7000)), max_px=3, generator=seeded()).image).long() + 3
    counts = torch.bincount(corners[:, 0] * 7 + corners[:, 1], minlength=49)
    assert len(counts) == 49
    expected = 7000 / 49
    # χ² with 48 degrees of freedom exceeds 93 once in 10,000 seeds.
    assert ((counts - expected) ** 2 / expected).sum() < 93


@pytest.mark.parametrize(("augmentation", "max_px"), [(traffic, 100), (billiard, 50)])
def test_the_paper_s_translations_reach_their_range_and_no_further(augmentation, max_px):
    training = augmentation(generator=seeded())
    step = getattr(training, "steps", [training])[0]
    corners = corners_of(step(Pictures.of(numbered(120, 120, 600))).image)
    # The largest of 1,200 draws misses the last twentieth of the range with probability 0.95¹²⁰⁰.
    assert 0.95 * max_px < corners.abs().max() <= max_px
    assert_close(corners.mean(0), torch.zeros(2), atol=4 * max_px / 3**0.5 / 600**0.5, rtol=0)


def fit_line(image: Tensor, changed: Tensor) -> tuple[Tensor, Tensor]:
    """a and b of each image's a·x + b, by least squares."""
    x, y = image.flatten(1).double(), changed.flatten(1).double()
    a = ((x - x.mean(1, True)) * (y - y.mean(1, True))).sum(1) / ((x - x.mean(1, True)) ** 2).sum(1)
    return a, y.mean(1) - a * x.mean(1)


def test_color_is_one_line_per_image_in_the_paper_s_ranges():
    image = torch.rand(4000, 3, 4, 4, generator=seeded(1))
    changed = color(Pictures.of(image), generator=seeded()).image
    a, b = fit_line(image, changed)
    assert_close(changed.double(), a[:, None, None, None] * image + b[:, None, None, None], atol=1e-6, rtol=0)
    same = (changed == image).flatten(1).all(1)
    assert_close(same.double().mean().item(), 0.2, atol=4 * (0.16 / 4000) ** 0.5, rtol=0)
    a, b = a[~same], b[~same]
    for values, low, high in ((a, 0.8, 1.2), (b, -0.1, 0.1)):
        assert low - 1e-6 < values.min() < low + 0.01 * (high - low)
        assert high + 1e-6 > values.max() > high - 0.01 * (high - low)
        assert_close(values.mean().item(), (low + high) / 2, atol=4 * (high - low) / 12**0.5 / 3200**0.5, rtol=0)
        assert_close(values.std().item(), (high - low) / 12**0.5, atol=0.03 * (high - low), rtol=0)
    assert torch.corrcoef(torch.stack([a, b]))[0, 1].abs() < 4 / 3200**0.5


def test_colors_are_not_clamped():
    white = color(Pictures.of(torch.ones(100, 3, 2, 2)), generator=seeded()).image
    black = color(Pictures.of(torch.zeros(100, 3, 2, 2)), generator=seeded()).image
    assert white.max() > 1.15
    assert black.min() < -0.05


def test_crops_lie_inside_and_everywhere():
    corners = corners_of(cut_part(Pictures.of(numbered(12, 9, 3000)), size=(10, 8), generator=seeded()).image)
    counts = torch.bincount((corners[:, 0] * 3 + corners[:, 1]).long(), minlength=6)
    assert len(counts) == 6
    # Six places, 3,000 draws: χ² with 5 degrees of freedom exceeds 26 once in 10,000 seeds.
    assert ((counts - 500.0) ** 2 / 500).sum() < 26
    assert_close(cut_part(Pictures.of(numbered(5, 6, 2)), size=(5, 6)).image, numbered(5, 6, 2))
    with pytest.raises(ValueError, match="no 10×8 part fits into an image of 9×9"):
        cut_part(Pictures.of(numbered(9, 9, 1)), size=(10, 8))


def test_each_image_is_flipped_on_its_own():
    image = torch.rand(2000, 1, 2, 3, generator=seeded(1))
    result = flip(Pictures.of(image), generator=seeded()).image
    flipped = (result == image.flip(-1)).flatten(1).all(1)
    kept = (result == image).flatten(1).all(1)
    assert torch.equal(flipped, ~kept)
    assert_close(flipped.double().mean().item(), 0.5, atol=4 * 0.5 / 2000**0.5, rtol=0)
    # Neighbors in the batch are as often equal as not.
    assert_close((flipped[1:] == flipped[:-1]).double().mean().item(), 0.5, atol=4 * 0.5 / 2000**0.5, rtol=0)


NAMES = ["shift", "color", "crop", "flip", "rotate90", "flip,rotate90,crop,color"]


@pytest.mark.parametrize("name", NAMES)
def test_torch_s_generator_decides(name):
    step = build_augmentation({"name": name, "max_px": 5} if name == "shift" else {"name": name})
    image = torch.rand(16, 3, 30, 30, generator=seeded(1))

    def draw(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return step(Pictures.of(image)).image

    assert torch.equal(draw(0), draw(0))
    assert not torch.equal(draw(0), draw(1))


def with_boxes(sizes: list[tuple[int, int]]) -> Pictures:
    """Pictures of `sizes` of random pixels, padded to the largest, with two boxes in each."""
    rng, (height, width) = np.random.default_rng(0), np.max(sizes, axis=0)
    image, boxes = torch.zeros(len(sizes), 3, height, width), []
    for number, (h, w) in enumerate(sizes):
        image[number, :, :h, :w] = torch.from_numpy(rng.random((3, h, w), np.float32))
        corners = rng.integers(0, [w - 3, h - 3], (2, 2))
        boxes.append(torch.from_numpy(np.hstack([corners, corners + rng.integers(1, 4, (2, 2))])))
    return Pictures(image.contiguous(memory_format=torch.channels_last), tuple(boxes), torch.tensor(sizes))


def whole(pictures: Pictures, number: int) -> np.ndarray:
    """One picture as NumPy has it, H W 3; around it there must be nothing."""
    height, width = pictures.sizes[number]
    image = pictures.image[number].clone()
    found = image[:, :height, :width].permute(1, 2, 0).numpy().copy()
    image[:, :height, :width] = 0
    assert not image.any()
    return found


def contents(picture: np.ndarray, boxes: Tensor) -> list[np.ndarray]:
    return [picture[top:bottom, left:right] for left, top, right, bottom in boxes.tolist()]


SIZES = [[(12, 12)] * 40, [(9, 14)] * 40, [(9, 14), (11, 8), (7, 7), (12, 12)] * 10]
WAYS = {  # what NumPy makes of a picture, for each way a step can go
    flip: [lambda x: x, lambda x: x[:, ::-1]],
    rotate90: [lambda x, turns=turns: np.rot90(x, turns) for turns in range(4)],
}


@pytest.mark.parametrize("step", [flip, rotate90])
@pytest.mark.parametrize("sizes", SIZES, ids=["squares", "alike", "mixed"])
def test_pixels_and_boxes_go_as_numpy_has_them(step, sizes):
    before = with_boxes(sizes)
    seen = set()
    for seed in range(2):
        after = step(before, generator=seeded(seed))
        for number in range(len(sizes)):
            old, new = whole(before, number), whole(after, number)
            ways = [n for n, way in enumerate(WAYS[step]) if np.array_equal(way(old), new)]
            assert len(ways) == 1
            seen.add(ways[0])
            inside = contents(old, before.boxes[number])
            for was, now in zip(inside, contents(new, after.boxes[number]), strict=True):
                assert np.array_equal(WAYS[step][ways[0]](was), now)  # what a box holds turns with it
    assert seen == set(range(len(WAYS[step])))


def test_pictures_that_are_no_squares_are_turned_together():
    shapes = {rotate90(with_boxes([(9, 14)] * 8), generator=seeded(seed)).image.shape[-2:] for seed in range(8)}
    assert shapes == {(9, 14), (14, 9)}  # never padded to 14×14


@pytest.mark.parametrize("sizes", SIZES, ids=["squares", "alike", "mixed"])
def test_boxes_hold_the_same_pixels_after_crops_and_shifts(sizes):
    before = with_boxes(sizes)
    for after in (
        cut_part(before, share=0.7, generator=seeded()),
        cut_part(before, size=(6, 5), generator=seeded()),
        shift(before, max_px=4, generator=seeded()),
    ):
        kept = 0
        for number in range(len(sizes)):
            old, new = whole(before, number), whole(after, number)
            patches = [patch.tobytes() for patch in contents(old, before.boxes[number])]
            for patch in contents(new, after.boxes[number]):
                assert patch.size  # what is left of a box lies inside
                kept += patch.tobytes() in patches
        assert kept > len(sizes) / 4  # whole ones, of two a picture


def test_a_box_that_a_crop_cuts_ends_at_its_edge():
    picture = Pictures.of(numbered(10, 10, 1), (torch.tensor([[0, 0, 10, 10], [0, 0, 1, 1]]),))
    after = cut_part(picture, size=(9, 9), generator=seeded(3))
    left, top = corners_of(after.image)[0].tolist()
    assert after.boxes[0].tolist() == [[0, 0, 9, 9], *([[0, 0, 1, 1]] if left == top == 0 else [])]


def test_names_are_done_one_after_the_other():
    pictures = with_boxes(SIZES[1])
    torch.manual_seed(0)
    expected = color(shift(flip(pictures), max_px=3))
    torch.manual_seed(0)
    found = build_augmentation({"name": "flip, shift,color", "max_px": 3})(pictures)
    assert torch.equal(found.image, expected.image)
    assert all(map(torch.equal, found.boxes, expected.boxes))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"name": "flip,flop"},
            "unknown augmentation 'flop': expected one of none, shift, color, crop, flip, rotate90",
        ),
        ({"name": "flip,"}, "unknown augmentation ''"),
        ({"name": "flip,crop", "max_px": 3}, "augmentation 'flip,crop' has no option 'max_px': it takes share"),
        ({"name": "crop", "share": 2}, "share is 2, expected a share of the sides above 0 and up to 1"),
        ({"name": "shift"}, "needs the option 'max_px'"),
    ],
)
def test_wrong_names_and_options_are_told(spec, message):
    with pytest.raises(ValueError, match=message):
        build_augmentation(spec)


def test_birds_are_cropped_and_flipped():
    column = torch.linspace(0, 1, 600).expand(2, 3, 600, 600)
    assert_close(Preparation(crop=(448, 448)).see(column), column[:, :, 76:524, 76:524])
    trained = crop_and_flip(crop=(448, 448), generator=seeded())(Pictures.of(column)).image
    assert trained.shape == (2, 3, 448, 448)
    for image in trained:
        row = image[0, 0]
        rising = row if row[0] < row[-1] else row.flip(0)
        left = round(rising[0].item() * 599)
        assert_close(rising, column[0, 0, 0, left : left + 448])


def test_a_recipe_s_crop_is_that_of_the_preparation():
    for name in ("cub", "crop"):
        step = build_augmentation({"name": name}, crop=(8, 6))
        assert step(Pictures.of(torch.rand(2, 3, 20, 20))).image.shape == (2, 3, 8, 6)
    with pytest.raises(ValueError, match=r"model\.preparation\.crop"):
        build_augmentation({"name": "cub"})
