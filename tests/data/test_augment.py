"""Augmentation: every image has its own draw, within the paper's ranges, and the same one for the same generator."""

import pytest
import torch
from torch import Generator, Tensor
from torch.nn.functional import pad
from torch.testing import assert_close
from torchvision.transforms import v2

from saccade.data.augment import (
    Crop,
    Flip,
    JitterColor,
    Translate,
    billiard,
    build_augmentation,
    crop,
    crop_and_flip,
    flip,
    jitter_color,
    traffic,
    translate,
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
    moved = translate(image, max_px=7, generator=seeded())
    corners = corners_of(translate(numbered(40, 50, 20), max_px=7, generator=seeded())).int().tolist()
    padded = pad(image, (7, 7, 7, 7))
    for result, source, (left, top) in zip(moved, padded, corners, strict=True):
        assert torch.equal(result, source[:, top + 7 : top + 47, left + 7 : left + 57])


def test_translations_are_uniform_over_all_offsets():
    corners = corners_of(translate(numbered(9, 9, 7000), max_px=3, generator=seeded())).long() + 3
    counts = torch.bincount(corners[:, 0] * 7 + corners[:, 1], minlength=49)
    assert len(counts) == 49
    expected = 7000 / 49
    # χ² with 48 degrees of freedom exceeds 93 once in 10,000 seeds.
    assert ((counts - expected) ** 2 / expected).sum() < 93


@pytest.mark.parametrize(("augmentation", "max_px"), [(traffic, 100), (billiard, 50)])
def test_the_paper_s_translations_reach_their_range_and_no_further(augmentation, max_px):
    training = augmentation(generator=seeded())
    step = training.transforms[0] if isinstance(training, v2.Compose) else training
    assert isinstance(step, Translate)
    corners = corners_of(step(numbered(120, 120, 600)))
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
    changed = jitter_color(image, generator=seeded())
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
    white = jitter_color(torch.ones(100, 3, 2, 2), generator=seeded())
    black = jitter_color(torch.zeros(100, 3, 2, 2), generator=seeded())
    assert white.max() > 1.15
    assert black.min() < -0.05


def test_crops_lie_inside_and_everywhere():
    corners = corners_of(crop(numbered(12, 9, 3000), size=(10, 8), generator=seeded()))
    counts = torch.bincount((corners[:, 0] * 3 + corners[:, 1]).long(), minlength=6)
    assert len(counts) == 6
    # Six places, 3,000 draws: χ² with 5 degrees of freedom exceeds 26 once in 10,000 seeds.
    assert ((counts - 500.0) ** 2 / 500).sum() < 26
    assert_close(crop(numbered(5, 6, 2), size=(5, 6)), numbered(5, 6, 2))
    with pytest.raises(ValueError, match="no 10×8 part fits into an image of 9×9"):
        crop(numbered(9, 9, 1), size=(10, 8))


def test_each_image_is_flipped_on_its_own():
    image = torch.rand(2000, 1, 2, 3, generator=seeded(1))
    result = flip(image, generator=seeded())
    flipped = (result == image.flip(-1)).flatten(1).all(1)
    kept = (result == image).flatten(1).all(1)
    assert torch.equal(flipped, ~kept)
    assert_close(flipped.double().mean().item(), 0.5, atol=4 * 0.5 / 2000**0.5, rtol=0)
    # Neighbors in the batch are as often equal as not.
    assert_close((flipped[1:] == flipped[:-1]).double().mean().item(), 0.5, atol=4 * 0.5 / 2000**0.5, rtol=0)


@pytest.mark.parametrize("step", [Translate, JitterColor, Crop, Flip])
def test_the_generator_decides(step):
    options = {"size": (20, 20)} if step is Crop else {}
    image = torch.rand(16, 3, 30, 30, generator=seeded(1))
    once, again, other = (step(**options, generator=seeded(seed))(image) for seed in (0, 0, 1))
    assert torch.equal(once, again)
    assert not torch.equal(once, other)
    generator = seeded()
    steps = step(**options, generator=generator)
    assert not torch.equal(steps(image), steps(image))


def test_birds_are_cropped_and_flipped():
    column = torch.linspace(0, 1, 600).expand(2, 3, 600, 600)
    assert_close(Preparation(crop=(448, 448)).see(column), column[:, :, 76:524, 76:524])
    trained = crop_and_flip(crop=(448, 448), generator=seeded())(column)
    assert trained.shape == (2, 3, 448, 448)
    for image in trained:
        row = image[0, 0]
        rising = row if row[0] < row[-1] else row.flip(0)
        left = round(rising[0].item() * 599)
        assert_close(rising, column[0, 0, 0, left : left + 448])


def test_a_recipe_s_crop_is_that_of_the_preparation():
    assert build_augmentation({"name": "cub"}, crop=(8, 6))(torch.rand(2, 3, 20, 20)).shape == (2, 3, 8, 6)
    with pytest.raises(ValueError, match=r"model\.preparation\.crop"):
        build_augmentation({"name": "cub"})
