"""Images made small a few rows at a time: as if whole."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from saccade.images import bands


def noise(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(height + width).integers(0, 256, (height, width, 3), dtype=np.uint8)


def to_tensor(pixels: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(pixels).permute(2, 0, 1) / 255


@given(data=st.data(), old=st.tuples(st.integers(1, 70), st.integers(2, 70)), piece_px=st.integers(1, 700))
def test_a_resize_in_pieces_is_the_resize_of_the_whole(data, old, piece_px):
    # At least two columns: torch's antialiased resize to a single one repeats its first row all the way down.
    new = data.draw(st.tuples(st.integers(1, old[0]), st.integers(2, old[1])))
    pixels = noise(*old)
    cuts = sorted(data.draw(st.sets(st.integers(1, old[0]))) | {0, old[0]})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bands, "PIECE_PX", piece_px)
        view = bands.resize((pixels[top:bottom] for top, bottom in pairwise(cuts)), old, new)
    expected = torch.nn.functional.interpolate(to_tensor(pixels)[None].double(), new, mode="bilinear", antialias=True)
    assert_close(view, expected[0].float(), atol=2e-5, rtol=0)


def test_at_its_own_size_an_image_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(bands, "PIECE_PX", 100)
    pixels = noise(30, 40)
    assert torch.equal(bands.resize([pixels], (30, 40), (30, 40)), to_tensor(pixels))
