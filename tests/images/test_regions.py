import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from saccade.images import regions


def reference(image, corners, size):
    """Pad far enough on all sides, then slice."""
    reach = int(corners.abs().max()) + max(size) + max(image.shape[-2:])
    padded = F.pad(image, (reach,) * 4)
    return torch.stack(
        [
            torch.stack([padded[b, :, y + reach : y + reach + size[0], x + reach : x + reach + size[1]] for x, y in c])
            for b, c in enumerate(corners.tolist())
        ]
    )


@pytest.mark.parametrize("cut", [regions._cut_by_copies, regions._cut_by_gather])
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_both_ways_equal_padding_and_slicing(cut, data):
    height, width, channels = (data.draw(st.integers(1, high)) for high in (9, 9, 3))
    size = (data.draw(st.integers(1, 12)), data.draw(st.integers(1, 12)))
    corners = torch.tensor(data.draw(st.lists(st.tuples(*[st.integers(-15, 15)] * 2), min_size=2, max_size=6)))
    corners = torch.stack([corners, corners.flip(0)])  # B=2 R 2
    image = torch.rand(2, channels, height, width)
    if data.draw(st.booleans()):
        image = image.contiguous(memory_format=torch.channels_last)
    assert torch.equal(cut(image, corners, size), reference(image, corners, size))


def test_a_channels_last_image_gives_channels_last_regions():
    image = torch.rand(2, 3, 20, 20).contiguous(memory_format=torch.channels_last)
    cut = regions.cut_regions(image, torch.zeros(2, 4, 2, dtype=torch.long), (5, 5))
    assert cut.flatten(0, 1).is_contiguous(memory_format=torch.channels_last)


def test_gradient_reaches_the_image():
    image = torch.rand(1, 1, 4, 4, dtype=torch.float64, requires_grad=True)
    corners = torch.tensor([[[-1, 0], [1, 1], [1, 1]]])
    assert torch.autograd.gradcheck(lambda x: regions.cut_regions(x, corners, (3, 2)), image)
    regions.cut_regions(image, corners, (3, 2)).sum().backward()
    covered = torch.tensor([[1, 0, 0, 0], [1, 2, 2, 0], [1, 2, 2, 0], [0, 2, 2, 0]], dtype=torch.float64)
    assert_close(image.grad[0, 0], covered)
