"""Ordinary files: upright whatever EXIF says, decoded once and kept as bytes, damage named."""

import numpy as np
import pytest
import torch
from PIL import ExifTags, Image
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from saccade.images import file as file_module
from saccade.images import make_view
from saccade.images.decode import BadImage
from saccade.images.file import FileImage
from saccade.images.image_source import open_image

# What a camera stores for each orientation: the upright picture (H W 3) after this.
STORED = {
    1: lambda upright: upright,
    2: lambda upright: upright[:, ::-1],
    3: lambda upright: upright[::-1, ::-1],
    4: lambda upright: upright[::-1],
    5: lambda upright: upright.swapaxes(0, 1),
    6: lambda upright: upright[:, ::-1].swapaxes(0, 1),
    7: lambda upright: upright[::-1, ::-1].swapaxes(0, 1),
    8: lambda upright: upright[::-1].swapaxes(0, 1),
}


def slopes(height: int, width: int) -> np.ndarray:
    """Red rises to the right, green downwards, blue is constant: no two orientations look alike."""
    picture = np.full((height, width, 3), 100, np.uint8)
    picture[..., 0] = np.linspace(0, 255, width)
    picture[..., 1] = np.linspace(0, 255, height)[:, None]
    return picture


@pytest.mark.parametrize("orientation", STORED)
def test_views_and_regions_are_upright(orientation, tmp_path):
    picture = slopes(160, 240)
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    stored = Image.fromarray(np.ascontiguousarray(STORED[orientation](picture)))
    stored.save(tmp_path / "a.jpg", quality=100, subsampling=0, exif=exif)
    source = open_image(tmp_path / "a.jpg")
    upright = torch.from_numpy(picture).permute(2, 0, 1) / 255
    assert source.size == (160, 240)
    box = torch.tensor([[200, 10, 230, 30]])
    assert_close(source.regions(box)[0], upright[:, 10:30, 200:230], atol=3 / 255, rtol=0)
    for scale in (1 / 2, 1 / 4):
        assert_close(source.view(scale), make_view(upright[None], scale)[0], atol=4 / 255, rtol=0)


class Floats(TorchDispatchMode):
    """How many numbers the largest tensor of floats has that torch makes in the meantime."""

    largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.is_floating_point():
            self.largest = max(self.largest, result.numel())
        return result


def test_nothing_as_large_as_the_image_is_ever_floats(tmp_path):
    picture = np.random.default_rng(0).integers(0, 256, (300, 400, 3), dtype=np.uint8)
    Image.fromarray(picture).save(tmp_path / "a.png")
    with Floats() as floats:
        source = FileImage(tmp_path / "a.png")
        view = source.view(1 / 8)
        source.regions(torch.tensor([[10, 20, 40, 50]]))
    assert floats.largest <= max(view.numel(), 3 * 30 * 30)
    assert_close(
        view, make_view(torch.from_numpy(picture).permute(2, 0, 1)[None] / 255, 1 / 8)[0], atol=1 / 255, rtol=0
    )


def test_a_file_is_decoded_once_for_all_regions(tmp_path, monkeypatch):
    Image.fromarray(slopes(60, 80)).save(tmp_path / "a.png")
    decoded = []
    read = file_module.read_pixels
    monkeypatch.setattr(
        file_module, "read_pixels", lambda path, **options: decoded.append(path) or read(path, **options)
    )
    source = FileImage(tmp_path / "a.png")
    for left in range(10):
        source.regions(torch.tensor([[left, 0, left + 5, 5]]))
    source.view(1 / 2)
    assert decoded == [tmp_path / "a.png"]


@pytest.mark.parametrize("ask", [lambda source: source.view(1 / 8), lambda source: source.view(1.0)])
def test_a_truncated_jpeg_is_named(ask, tmp_path):
    path = tmp_path / "cut.jpg"
    noise = np.random.default_rng(0).integers(0, 256, (400, 400, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(BadImage, match=r"cut\.jpg: damaged or truncated"):
        ask(open_image(path))


@pytest.mark.parametrize("suffix", [".jpg", ".png"])
def test_a_picture_beyond_the_limit_is_refused_before_decoding(suffix, tmp_path):
    path = tmp_path / f"large{suffix}"
    Image.fromarray(slopes(100, 100)).save(path)
    with pytest.raises(BadImage, match="limit"):
        FileImage(path, max_pixels=9_999).view(1 / 8)
    assert FileImage(path, max_pixels=10_000).view(1 / 8).shape == (3, 12, 12)


def test_what_is_no_image_is_named(tmp_path):
    path = tmp_path / "notes.jpg"
    path.write_text("no pixels here")
    with pytest.raises(BadImage, match=r"notes\.jpg: not an image"):
        open_image(path).view(1 / 2)
