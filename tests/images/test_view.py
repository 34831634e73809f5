import pytest
import torch
from torch.testing import assert_close

from saccade.images import View, make_view, view_size


@pytest.mark.parametrize(
    ("image", "scale", "view"),
    [((960, 1280), 1 / 3, (320, 426)), ((1000, 1000), 1 / 4, (250, 250)), ((1500, 1500), 0.12, (180, 180))],
)
def test_sizes_of_the_paper(image, scale, view):
    assert view_size(image, scale) == view


def test_antialiasing_keeps_what_falls_between_pixels():
    """A single bright pixel keeps its total light at any position; plain bilinear sampling loses most of them."""
    for x in range(20, 28):
        image = torch.zeros(1, 1, 48, 48)
        image[0, 0, 24, x] = 1.0
        assert_close(make_view(image, 1 / 8).sum() * 64, torch.tensor(1.0), atol=0.02, rtol=0)


def test_constant_stays_constant():
    assert_close(make_view(torch.full((1, 3, 50, 70), 0.3), 0.37), torch.full((1, 3, 18, 25), 0.3))


@pytest.mark.parametrize("scale", [0.0, -1.0, 3.0, float("nan")])
def test_impossible_scales_are_refused_with_the_fix(scale):
    with pytest.raises(ValueError, match="pass 1 / 3"):
        View(scale)


def test_image_too_small_for_the_scale():
    with pytest.raises(ValueError, match="raise the scale"):
        make_view(torch.zeros(1, 3, 4, 400), 1 / 8)
