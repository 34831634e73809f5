"""Every kind of file gives the right colors, or a `BadImage` that names it."""

import pickle
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image
from torch.testing import assert_close

from saccade.images.boxes import to_float
from saccade.images.decode import BadImage, read_pixels


def decode(path: Path, **options: int) -> torch.Tensor:
    return to_float(read_pixels(path, **options))


RNG = np.random.default_rng(0)
DEEP_GREY = RNG.integers(0, 65536, (5, 7), dtype=np.uint16)
DEEP_RGB = RNG.integers(0, 65536, (5, 7, 3), dtype=np.uint16)
RGB = (DEEP_RGB >> 8).astype(np.uint8)
GREY = RGB[..., 0]

# What each EXIF orientation's pixels look like when the upright picture is `upright`.
STORED = {
    1: lambda upright: upright,
    2: np.fliplr,
    3: lambda upright: np.rot90(upright, 2),
    4: np.flipud,
    5: lambda upright: np.transpose(upright, (1, 0, 2)),
    6: np.rot90,
    7: lambda upright: np.rot90(np.transpose(upright, (1, 0, 2)), 2),
    8: lambda upright: np.rot90(upright, -1),
}


def expect(path: Path, pixels: np.ndarray, *, atol: float = 0.0) -> None:
    """`pixels` in [0, 1], H W 3 or, if gray, H W."""
    if pixels.ndim == 2:
        pixels = np.repeat(pixels[..., None], 3, axis=-1)
    got = decode(path)
    assert_close(got, torch.tensor(pixels, dtype=torch.float32).permute(2, 0, 1), atol=atol + 1e-6, rtol=0)


def png(pixels: np.ndarray, *, color_type: int, size: tuple[int, int] | None = None) -> bytes:
    """A 16-bit PNG, which Pillow does not write in color; `size` overrides the true (height, width) in the header."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width = size or pixels.shape[:2]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 16, color_type, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("suffix", ["png", "bmp", "tif", "webp", "ppm", "jp2"])
def test_rgb_is_exact_in_lossless_files(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    lossless: dict[str, Any] = {"webp": {"lossless": True}, "jp2": {"irreversible": False}}.get(suffix, {})
    Image.fromarray(RGB).save(path, **lossless)
    expect(path, RGB / 255)


def test_jpeg_in_color_and_gray(tmp_path):
    flat = np.full((16, 24, 3), (200, 40, 90), dtype=np.uint8)
    Image.fromarray(flat).save(tmp_path / "rgb.jpg", quality=98)
    Image.fromarray(flat[..., 0]).save(tmp_path / "gray.jpg", quality=98)
    expect(tmp_path / "rgb.jpg", flat / 255, atol=3 / 255)
    expect(tmp_path / "gray.jpg", flat[..., 0] / 255, atol=1 / 255)


@pytest.mark.parametrize("suffix", ["jpg", "png", "tif", "webp"])
@pytest.mark.parametrize("orientation", STORED)
def test_turned_pictures_stand_upright(tmp_path, suffix, orientation):
    upright = np.zeros((16, 32, 3), dtype=np.uint8)
    upright[:8, :16], upright[8:, 16:], upright[:8, 16:] = (255, 0, 0), (0, 0, 255), (0, 255, 0)
    exif = Image.Exif()
    exif[274] = orientation
    lossless = {"jpg": {"quality": 100, "subsampling": 0}, "webp": {"lossless": True}}.get(suffix, {})
    stored = np.ascontiguousarray(STORED[orientation](upright))
    Image.fromarray(stored).save(tmp_path / f"a.{suffix}", exif=exif, **lossless)
    expect(tmp_path / f"a.{suffix}", upright / 255, atol=4 / 255 if suffix == "jpg" else 0)


def test_a_palette_with_and_without_transparency(tmp_path):
    image = Image.fromarray(np.array([[0, 1], [1, 2]], dtype=np.uint8), mode="P")
    image.putpalette([255, 0, 0, 0, 255, 0, 0, 0, 255])
    image.save(tmp_path / "a.png")
    image.save(tmp_path / "a.gif")
    image.save(tmp_path / "clear.png", transparency=1)
    colors = np.array([[[1, 0, 0], [0, 1, 0]], [[0, 1, 0], [0, 0, 1]]])
    expect(tmp_path / "a.png", colors)
    expect(tmp_path / "a.gif", colors)
    is_green = (colors == [0, 1, 0]).all(-1, keepdims=True)
    expect(tmp_path / "clear.png", np.where(is_green, 1, colors))


def test_alpha_is_laid_over_white(tmp_path):
    alpha = RNG.integers(0, 256, (5, 7), dtype=np.uint8)
    Image.fromarray(np.dstack([RGB, alpha])).save(tmp_path / "rgba.png")
    Image.fromarray(np.dstack([GREY, alpha]), mode="LA").save(tmp_path / "la.png")
    weight = alpha / 255
    expect(tmp_path / "rgba.png", RGB / 255 * weight[..., None] + 1 - weight[..., None], atol=1 / 255)
    expect(tmp_path / "la.png", GREY / 255 * weight + 1 - weight, atol=1 / 255)


@pytest.mark.parametrize("suffix", ["tif", "jpg"])
def test_cmyk_inks_have_their_colors(tmp_path, suffix):
    inks = {(0, 0, 0, 0): (1, 1, 1), (255, 0, 0, 0): (0, 1, 1), (0, 255, 255, 0): (1, 0, 0), (0, 0, 0, 255): (0, 0, 0)}
    for ink, color in inks.items():
        options: dict[str, Any] = {"quality": 100} if suffix == "jpg" else {}
        Image.new("CMYK", (8, 8), ink).save(tmp_path / f"a.{suffix}", **options)
        expect(tmp_path / f"a.{suffix}", np.full((8, 8, 3), color), atol=4 / 255 if suffix == "jpg" else 0)


def test_one_bit(tmp_path):
    bits = RNG.integers(0, 2, (5, 7)).astype(bool)
    Image.fromarray(bits).save(tmp_path / "a.png")
    Image.fromarray(bits).save(tmp_path / "a.tif", compression="group4")
    expect(tmp_path / "a.png", bits.astype(float))
    expect(tmp_path / "a.tif", bits.astype(float))


def test_16_bit_gray_keeps_its_range(tmp_path):
    Image.fromarray(DEEP_GREY).save(tmp_path / "a.png")
    (tmp_path / "a.pgm").write_bytes(b"P5 7 5 65535\n" + DEEP_GREY.astype(">u2").tobytes())
    tifffile.imwrite(tmp_path / "little.tif", DEEP_GREY)
    tifffile.imwrite(tmp_path / "big.tif", DEEP_GREY, byteorder=">")
    tifffile.imwrite(tmp_path / "negative.tif", 65535 - DEEP_GREY, photometric="miniswhite")
    for name in ("a.png", "a.pgm", "little.tif", "big.tif", "negative.tif"):
        expect(tmp_path / name, DEEP_GREY / 65535)


def test_16_bit_color(tmp_path):
    (tmp_path / "rgb.png").write_bytes(png(DEEP_RGB, color_type=2))
    expect(tmp_path / "rgb.png", DEEP_RGB / 65535, atol=1 / 255)
    tifffile.imwrite(tmp_path / "packed.tif", DEEP_RGB, photometric="rgb", compression="zlib")
    expect(tmp_path / "packed.tif", DEEP_RGB / 65535, atol=1 / 255)
    tifffile.imwrite(tmp_path / "rgb.tif", DEEP_RGB, photometric="rgb")
    expect(tmp_path / "rgb.tif", DEEP_RGB / 65535)
    # Pillow alone gets this one wrong without a word.
    tifffile.imwrite(tmp_path / "planes.tif", DEEP_RGB.transpose(2, 0, 1), photometric="rgb", planarconfig="separate")
    expect(tmp_path / "planes.tif", DEEP_RGB / 65535)
    alpha = RNG.integers(0, 65536, (5, 7, 1), dtype=np.uint16)
    tifffile.imwrite(
        tmp_path / "rgba.tif", np.dstack([DEEP_RGB, alpha]), photometric="rgb", extrasamples=["unassalpha"]
    )
    expect(tmp_path / "rgba.tif", DEEP_RGB / 65535 * (alpha / 65535) + 1 - alpha / 65535)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float_pixels_are_taken_as_they_are(tmp_path, dtype):
    tifffile.imwrite(tmp_path / "gray.tif", (DEEP_GREY / 65535).astype(dtype))
    tifffile.imwrite(tmp_path / "rgb.tif", (DEEP_RGB / 65535).astype(dtype), photometric="rgb")
    expect(tmp_path / "gray.tif", DEEP_GREY / 65535)
    expect(tmp_path / "rgb.tif", DEEP_RGB / 65535)


@pytest.mark.parametrize("name", ["a.tif", "a.gif", "a.webp"])
def test_the_first_of_several_pages(tmp_path, name):
    first, second = Image.new("RGB", (6, 4), "red"), Image.new("RGB", (6, 4), "blue")
    lossless: dict[str, Any] = {"lossless": True} if name == "a.webp" else {}
    first.save(tmp_path / name, save_all=True, append_images=[second], **lossless)
    with Image.open(tmp_path / name) as image:
        assert getattr(image, "n_frames", 1) == 2
    expect(tmp_path / name, np.full((4, 6, 3), (1, 0, 0)))


@pytest.fixture
def photo(tmp_path) -> Path:
    path = tmp_path / "photo.jpg"
    Image.fromarray(RNG.integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(path)
    return path


def reason(path: Path, **options) -> str:
    with pytest.raises(BadImage) as caught:
        decode(path, **options)
    assert caught.value.path == path
    assert str(caught.value) == f"{path}: {caught.value.reason}"
    return caught.value.reason


@pytest.mark.parametrize("suffix", ["jpg", "png", "tif", "bmp", "webp", "gif"])
@pytest.mark.parametrize("kept", [0.3, 0.7])
def test_a_truncated_file(tmp_path, photo, suffix, kept):
    path = tmp_path / f"whole.{suffix}"
    Image.open(photo).save(path)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * kept)])
    assert reason(path).startswith(("damaged or truncated (", "not an image"))


def test_files_that_are_not_images(tmp_path):
    (tmp_path / "zero.jpg").touch()
    (tmp_path / "text.jpg").write_text("dear diary")
    (tmp_path / "folder.jpg").mkdir()
    assert reason(tmp_path / "zero.jpg") == "the file is empty (0 bytes)"
    assert reason(tmp_path / "text.jpg").startswith("not an image")
    assert reason(tmp_path / "folder.jpg") == "a folder, expected an image file"
    assert reason(tmp_path / "nowhere.jpg") == "no such file"


def test_an_absurd_size_is_refused_before_it_is_decoded(tmp_path):
    bomb = tmp_path / "bomb.png"
    bomb.write_bytes(png(DEEP_RGB, color_type=2, size=(60_000, 70_000)))
    limit_of_pillow = Image.MAX_IMAGE_PIXELS
    assert reason(bomb).startswith("60000×70000 is 4,200 megapixels, the limit is 268; ")
    assert limit_of_pillow == Image.MAX_IMAGE_PIXELS


def test_the_size_limit_is_the_callers(photo):
    assert "the limit is 0" in reason(photo, max_pixels=64 * 64 - 1)
    assert decode(photo, max_pixels=64 * 64).shape == (3, 64, 64)


def test_the_size_limit_may_be_above_pillows(tmp_path, monkeypatch):
    Image.new("L", (100, 100)).save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)  # Pillow itself would refuse above 2000
    expect(tmp_path / "a.png", np.zeros((100, 100)))


def test_values_without_a_known_range_are_refused(tmp_path):
    tifffile.imwrite(tmp_path / "float.tif", np.array([[0.0, 300.0]], dtype=np.float32))
    tifffile.imwrite(tmp_path / "nan.tif", np.array([[0.0, np.nan]], dtype=np.float32))
    tifffile.imwrite(tmp_path / "int.tif", np.array([[0, 70_000]], dtype=np.int32))
    assert reason(tmp_path / "float.tif").startswith("its float pixels run from 0 to 300, expected [0, 1]")
    assert reason(tmp_path / "nan.tif").startswith("its float pixels run from nan to nan")
    assert reason(tmp_path / "int.tif").startswith("its integers run from 0 to 70000, expected 8 or 16 bits")


def test_a_bad_image_travels_between_processes():
    error = pickle.loads(pickle.dumps(BadImage(Path("a: b.jpg"), "why: because")))
    assert (error.path, error.reason, str(error)) == (Path("a: b.jpg"), "why: because", "a: b.jpg: why: because")
