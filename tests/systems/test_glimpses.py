"""Glimpses at the natural scale are crops, boxes are around what they show, and the gradient is right."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from saccade.images import cut_regions
from saccade.systems.glimpses import FREE, Transforms, glimpses, make_transforms

SIZE, PATCH = (50, 70), (12, 16)


def make_image(count: int = 1) -> Tensor:
    return torch.rand(count, 3, *SIZE, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def at(*places: tuple[float, float], matrix: Tensor | None = None) -> Transforms:
    """Transforms of one image."""
    matrix = torch.eye(2) if matrix is None else matrix
    return Transforms(torch.tensor([places]).double(), matrix.double().expand(1, len(places), 2, 2))


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(-20, 80), st.integers(-20, 60)), min_size=1, max_size=4),
    st.tuples(st.integers(1, 13), st.integers(1, 13)),
)
def test_at_the_natural_scale_a_glimpse_is_a_crop(corners, patch):
    image = make_image()
    transforms = at(*((left + patch[1] / 2, top + patch[0] / 2) for left, top in corners))
    expected = cut_regions(image, torch.tensor([corners]), patch)
    assert_close(glimpses(image, transforms, patch), expected, atol=1e-11, rtol=0)
    boxes = [[left, top, left + patch[1], top + patch[0]] for left, top in corners]
    assert transforms.boxes(patch).tolist() == [boxes]


def test_between_pixels_it_interpolates():
    image = make_image()
    shown = glimpses(image, at((20.25, 30.0)), (4, 6))
    expected = 0.75 * image[:, :, 28:32, 17:23] + 0.25 * image[:, :, 28:32, 18:24]
    assert_close(shown[:, 0], expected)


def test_a_quarter_turn_shows_the_crop_turned():
    image = make_image()
    turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]])  # right in the glimpse is down in the image
    transforms = at((30.0, 25.0), matrix=turn)
    shown = glimpses(image, transforms, (12, 16))[0, 0]
    assert_close(shown, torch.rot90(image[0, :, 17:33, 24:36], 1, dims=(1, 2)))
    assert transforms.boxes((12, 16)).tolist() == [[[24, 17, 36, 33]]]


def test_at_scale_two_a_glimpse_pixel_is_in_the_middle_of_four_image_pixels():
    image = make_image()
    transforms = at((30.0, 20.0), matrix=2 * torch.eye(2))
    expected = torch.nn.functional.avg_pool2d(image[:, :, 14:26, 22:38], 2)
    assert_close(glimpses(image, transforms, (6, 8))[:, 0], expected)
    assert transforms.boxes((6, 8)).tolist() == [[[22, 14, 38, 26]]]


@settings(deadline=None)
@given(st.lists(st.floats(-3, 3), min_size=4, max_size=4), st.floats(-20, 20), st.floats(-20, 20))
def test_a_box_is_around_all_that_its_glimpse_shows(numbers, x, y):
    transforms = at((x, y), matrix=torch.tensor(numbers).reshape(2, 2))
    ends = torch.tensor([(sx * PATCH[1] / 2, sy * PATCH[0] / 2) for sx in (-1, 1) for sy in (-1, 1)]).double()
    corners = ends @ transforms.matrix[0, 0].T + transforms.center_px[0, 0]  # 4 2
    expected = torch.cat([corners.amin(dim=0), corners.amax(dim=0)])
    assert (transforms.boxes(PATCH)[0, 0] - expected).abs().max() <= 0.5 + 1e-9


def test_numbers_mean_what_the_options_say():
    turned = make_transforms(
        torch.tensor([[[0.0, 0.5, 0.1, -0.2, 0.3, 0.4]]]), torch.tensor([[100, 200]]), free="affine"
    )
    assert_close(turned.center_px, torch.tensor([[[100.0, 50 * (1 + math.tanh(0.5))]]]))
    assert_close(turned.matrix, torch.tensor([[[[1.1, -0.2], [0.3, 1.4]]]]))
    scaled = make_transforms(torch.tensor([[[0.0, 0.0, math.log(3)]]]), torch.tensor([[100, 200]]), free="scale")
    assert_close(scaled.matrix, 3 * torch.eye(2)[None, None])


@pytest.mark.parametrize("free", list(FREE))
def test_the_gradient_to_the_numbers_is_right(free):
    image, generator = make_image(), torch.Generator().manual_seed(2)
    numbers = 0.3 * torch.randn(1, 2, 2 + FREE[free].count, dtype=torch.float64, generator=generator)

    def show(numbers: Tensor) -> Tensor:
        return glimpses(image, make_transforms(numbers, torch.tensor([SIZE]), free=free), (3, 4))

    assert torch.autograd.gradcheck(show, numbers.requires_grad_(), eps=1e-7, atol=1e-5)


def test_the_center_of_a_glimpse_lies_in_the_picture_and_not_in_its_padding():
    half = make_transforms(torch.zeros(2, 1, 2), torch.tensor([[100, 200], [50, 80]]), free="translation")
    assert half.boxes((20, 20)).tolist() == [[[90, 40, 110, 60]], [[30, 15, 50, 35]]]
