"""JPEGs by libjpeg-turbo: of every kind the bytes that Pillow gives; damage is left to Pillow."""

from pathlib import Path

import numpy as np
import pytest
from PIL import ExifTags, Image, ImageOps

from saccade.images import decode as decode_module
from saccade.images.decode import read_pixels
from saccade.images.turbo import decode_jpeg

HEIGHT, WIDTH = 93, 141  # no multiple of any block
KINDS = {
    "4:2:0": {"subsampling": "4:2:0"},
    "4:2:2": {"subsampling": "4:2:2"},
    "4:4:4": {"subsampling": "4:4:4"},
    "4:1:1": {"subsampling": "4:1:1"},
    "progressive": {"progressive": True},
    "coarse": {"quality": 5},
    "fine": {"quality": 100},
    "restarts": {"restart_marker_rows": 1},
    "stored as RGB": {"keep_rgb": True},
    "gray": {"mode": "L"},
}


def picture() -> Image.Image:
    """Waves and noise: chroma upsampled in another way would show."""
    y, x = np.mgrid[:HEIGHT, :WIDTH] / 9
    waves = 120 + 90 * np.stack([np.sin(x), np.cos(y), np.sin(x + y)], axis=-1)
    return Image.fromarray((waves + np.random.default_rng(0).normal(0, 12, waves.shape)).clip(0, 255).astype(np.uint8))


def save(path: Path, *, mode: str = "RGB", **options) -> Path:
    picture().convert(mode).save(path, **options)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_the_bytes_are_those_of_pillow(kind, tmp_path):
    path = save(tmp_path / "a.jpg", **KINDS[kind])
    pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    assert decode_jpeg(path, pixels)
    assert np.array_equal(pixels, np.asarray(Image.open(path).convert("RGB")))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_it_stands_upright(orientation, tmp_path, monkeypatch):
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    path = save(tmp_path / "a.jpg", exif=exif)
    monkeypatch.setattr(decode_module, "_load", lambda image: pytest.fail("Pillow was asked"))
    pixels = read_pixels(path)
    assert np.array_equal(pixels, np.asarray(ImageOps.exif_transpose(Image.open(path))))
    assert pixels.flags.c_contiguous


def test_what_it_complains_of_is_read_by_pillow(tmp_path):
    cmyk = save(tmp_path / "cmyk.jpg", mode="CMYK")
    assert np.array_equal(read_pixels(cmyk), np.asarray(Image.open(cmyk).convert("RGB")))
    data = save(tmp_path / "a.jpg").read_bytes()
    (tmp_path / "odd.jpg").write_bytes(data[:-2] + bytes(40) + data[-2:])  # something between its blocks and its end
    assert not decode_jpeg(tmp_path / "odd.jpg", np.zeros((HEIGHT, WIDTH, 3), np.uint8))
    assert np.array_equal(read_pixels(tmp_path / "odd.jpg"), read_pixels(tmp_path / "a.jpg"))


def test_another_size_than_the_header_said_is_no_answer(tmp_path):
    path = save(tmp_path / "a.jpg")
    for shape in ((HEIGHT - 1, WIDTH, 3), (HEIGHT + 1, WIDTH, 3), (WIDTH, HEIGHT, 3)):
        assert not decode_jpeg(path, np.zeros(shape, np.uint8))
