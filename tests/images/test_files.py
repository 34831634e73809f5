"""Ordinary files: upright whatever EXIF says, a JPEG's view without decoding it, damage named."""

import numpy as np
import pytest
import torch
from PIL import ExifTags, Image
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from saccade.images import bands, make_view
from saccade.images import file as file_module
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
    for scale in (1 / 2, 1 / 4):  # decoded whole, and from the cosine transform
        assert_close(source.view(scale), make_view(upright[None], scale)[0], atol=4 / 255, rtol=0)


def test_a_jpeg_cut_that_ends_inside_a_pixel_is_not_stretched(tmp_path):
    # 37 columns give 19 at half size, of which the picture covers 18.5: taken for all 19, the right end would be off
    # by one column, which is 7 gray levels here.
    picture = slopes(33, 37)
    Image.fromarray(picture).save(tmp_path / "a.jpg", quality=100, subsampling=0)
    expected = make_view(torch.from_numpy(picture).permute(2, 0, 1)[None] / 255, 1 / 3)[0]
    assert_close(FileImage(tmp_path / "a.jpg").view(1 / 3), expected, atol=4 / 255, rtol=0)


@pytest.mark.parametrize("mode", ["L", "CMYK", "RGB"])
def test_small_views_of_a_jpeg_do_without_the_whole(mode, tmp_path, monkeypatch):
    Image.fromarray(slopes(300, 400)).convert(mode).save(tmp_path / "a.jpg", quality=95)
    whole = FileImage(tmp_path / "a.jpg").view(0.34)

    def refuse(path, **options):
        raise AssertionError(f"{path} was decoded whole")

    monkeypatch.setattr(file_module, "read_pixels", refuse)
    source = FileImage(tmp_path / "a.jpg")
    small = source.view(1 / 3)
    assert_close(small.mean((1, 2)), whole.mean((1, 2)), atol=1 / 255, rtol=0)
    with pytest.raises(AssertionError, match="decoded whole"):
        source.view(0.34)


class Floats(TorchDispatchMode):
    """How many numbers the largest tensor of floats has that torch makes in the meantime."""

    largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.is_floating_point():
            self.largest = max(self.largest, result.numel())
        return result


def test_the_view_of_a_file_is_made_of_its_bytes(tmp_path, monkeypatch):
    """The whole as floats would be four times the bytes, and the resize would copy it once more."""
    monkeypatch.setattr(bands, "PIECE_PX", 2000)
    picture = np.random.default_rng(0).integers(0, 256, (300, 400, 3), dtype=np.uint8)
    Image.fromarray(picture).save(tmp_path / "a.png")
    with Floats() as floats:
        view = FileImage(tmp_path / "a.png").view(1 / 8)
    assert floats.largest <= 3 * 2000
    assert_close(view, make_view(torch.from_numpy(picture).permute(2, 0, 1)[None] / 255, 1 / 8)[0], atol=1e-5, rtol=0)


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
