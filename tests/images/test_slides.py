"""Slides and tiled pyramids: the right level, no pixel read twice or for nothing, real scanners' files."""

from pathlib import Path

import numpy as np
import openslide
import pytest
import tifffile
import torch
from PIL import Image
from torch.testing import assert_close

from saccade import extras
from saccade.images import bands, make_view, pyramid, slide
from saccade.images.boxes import Box
from saccade.images.decode import BadImage
from saccade.images.file import FileImage
from saccade.images.image_source import open_image
from saccade.images.pyramid import OpenSlidePyramid, TiffPyramid, open_pyramid
from saccade.images.slide import SlideImage

READERS = {"openslide": OpenSlidePyramid, "tifffile": TiffPyramid}


def noise(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(height + width).integers(0, 256, (height, width, 3), dtype=np.uint8)


def to_tensor(pixels: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(pixels).permute(2, 0, 1) / 255


def write_pyramid(path: Path, *levels: np.ndarray) -> Path:
    with tifffile.TiffWriter(path) as tiff:
        for number, level in enumerate(levels):
            tiff.write(level, photometric="rgb", tile=(32, 32), compression="deflate", subfiletype=int(number > 0))
    return path


@pytest.fixture(params=READERS)
def reader(request, monkeypatch) -> str:
    monkeypatch.setattr(slide, "open_pyramid", lambda path, *, single_file: READERS[request.param](path))
    return request.param


@pytest.fixture
def reads(monkeypatch) -> list[tuple[int, Box]]:
    """Every (level, box) that is read from now on."""
    log = []
    for kind in READERS.values():
        read = kind.read
        monkeypatch.setattr(
            kind, "read", lambda self, level, box, read=read: log.append((level, box)) or read(self, level, box)
        )
    return log


def test_a_level_is_read_once_and_in_bands(reader, reads, monkeypatch, tmp_path):
    pixels = noise(500, 210)
    source = SlideImage(write_pyramid(tmp_path / "a.tif", pixels))
    monkeypatch.setattr(slide, "BAND_PX", 20_000)
    assert_close(source.view(1 / 5), make_view(to_tensor(pixels)[None], 1 / 5)[0], atol=1e-4, rtol=0)
    heights = [box.bottom - box.top for _, box in reads]
    # 20,000 px are 95 rows of 210, and whole tiles of 32 rows make that 64.
    assert heights == [64] * 7 + [52]
    assert [box.top for _, box in reads] == list(range(0, 500, 64))


def test_a_row_of_tiles_wider_than_a_band_is_still_read_once(reads, monkeypatch, tmp_path):
    pixels = noise(100, 300)
    source = SlideImage(write_pyramid(tmp_path / "a.tif", pixels))
    monkeypatch.setattr(slide, "BAND_PX", 1000)
    monkeypatch.setattr(bands, "PIECE_PX", 1000)
    assert_close(source.view(0.3), make_view(to_tensor(pixels)[None], 0.3)[0], atol=1e-4, rtol=0)
    assert [(box.top, box.bottom) for _, box in reads] == [(0, 32), (32, 64), (64, 96), (96, 100)]


def test_views_use_the_smallest_level_that_is_large_enough(reader, reads, tmp_path):
    # Levels of unrelated pictures tell where a view came from.
    levels = noise(400, 320), noise(200, 160), noise(100, 80)
    source = SlideImage(write_pyramid(tmp_path / "a.tif", *levels))
    assert source.size == (400, 320)
    for scale, level in {1.0: 0, 0.51: 0, 1 / 2: 1, 0.3: 1, 0.26: 1, 1 / 4: 2, 0.05: 2}.items():
        reads.clear()
        view = source.view(scale)
        size = (int(400 * scale + 1e-6), int(320 * scale + 1e-6))
        whole = to_tensor(levels[level])[None]
        resized = torch.nn.functional.interpolate(whole, size, mode="bilinear", antialias=True)
        assert_close(view, resized[0], atol=1e-4, rtol=0)
        assert {read for read, _ in reads} == {level}


@pytest.mark.parametrize(
    ("subifds", "sizes", "reader"),
    [(0, [400, 200, 25], OpenSlidePyramid), (2, [400, 200, 100], TiffPyramid), (0, [400, 200, 100], TiffPyramid)],
)
def test_the_reader_that_sees_all_levels_is_taken(subifds, sizes, reader, tmp_path):
    with tifffile.TiffWriter(tmp_path / "a.tif") as tiff:
        for number, side in enumerate(sizes):
            options = {"subifds": subifds} if number == 0 else {"subfiletype": 1}
            tiff.write(noise(side, side), photometric="rgb", tile=(32, 32), compression="deflate", **options)
    opened = open_pyramid(tmp_path / "a.tif")
    assert isinstance(opened, reader)
    assert opened.sizes == tuple((side, side) for side in sizes)


def watch_decoding(monkeypatch) -> list[tuple[int, int]]:
    """Level and index of every tile that is decoded of files opened from now on."""
    decoded = []
    decode = pyramid._decode_tile
    monkeypatch.setattr(pyramid, "_decode_tile", lambda *place: decoded.append(place[2:]) or decode(*place))
    return decoded


def test_regions_decode_only_the_tiles_they_touch(monkeypatch, tmp_path):
    pixels = noise(320, 320)
    decoded = watch_decoding(monkeypatch)
    source = SlideImage(write_pyramid(tmp_path / "a.tif", pixels, pixels[::2, ::2]))
    boxes = torch.tensor([[40, 70, 60, 90], [60, 30, 80, 50], [-40, -40, -20, -20]])
    regions = source.regions(boxes)
    # Ten tiles of 32 px in a row: the first box lies in one, the second across four, the last in none.
    assert decoded == [(0, 21), (0, 1), (0, 2), (0, 11), (0, 12)]
    assert_close(regions[0], to_tensor(pixels[70:90, 40:60]))
    assert_close(regions[1], to_tensor(pixels[30:50, 60:80]))


def test_what_was_never_scanned_is_white_and_outside_is_zero(reader, tmp_path):
    tile = np.full((32, 32, 3), 50, np.uint8)
    with tifffile.TiffWriter(tmp_path / "a.tif") as tiff:
        tiff.write(
            iter([tile, None]),
            shape=(32, 64, 3),
            dtype=np.uint8,
            tile=(32, 32),
            photometric="rgb",
            compression="deflate",
        )
    region = SlideImage(tmp_path / "a.tif").regions(torch.tensor([[30, 0, 66, 32]]))[0]
    assert_close(region[:, :, :2], torch.full((3, 32, 2), 50 / 255))
    assert_close(region[:, :, 2:34], torch.ones(3, 32, 32))
    assert not region[:, :, 34:].any()


def test_a_gray_pyramid_becomes_rgb(tmp_path):
    gray = noise(100, 80)[..., 0]
    tifffile.imwrite(tmp_path / "a.tif", gray, tile=(32, 32), compression="deflate", photometric="minisblack")
    source = open_image(tmp_path / "a.tif")
    assert isinstance(source, SlideImage)
    assert_close(source.view(1.0), (torch.from_numpy(gray) / 255).expand(3, -1, -1))


def test_a_turned_tiff_is_left_to_the_file_reader_which_turns_it(tmp_path):
    pixels = noise(100, 80)
    turned = (274, "H", 1, 6, True)  # orientation: rotate by 90° clockwise
    tifffile.imwrite(tmp_path / "a.tif", pixels, rowsperstrip=10, photometric="rgb", extratags=[turned])
    source = open_image(tmp_path / "a.tif")
    assert isinstance(source, FileImage)
    assert_close(source.view(1.0), to_tensor(np.rot90(pixels, -1).copy()))


def test_a_file_of_huge_strips_is_no_slide(monkeypatch, tmp_path):
    """Each would be decoded whole for any part of it, and a few bytes may hold a large one."""
    tifffile.imwrite(tmp_path / "a.tif", noise(100, 80), rowsperstrip=50, photometric="rgb")
    assert isinstance(open_image(tmp_path / "a.tif"), SlideImage)
    monkeypatch.setattr(pyramid, "MAX_TILE_PX", 50 * 80 - 1)
    assert isinstance(open_image(tmp_path / "a.tif"), FileImage)


def test_a_view_that_would_fill_the_memory_is_refused_with_the_scale(monkeypatch, tmp_path):
    source = SlideImage(write_pyramid(tmp_path / "a.tif", noise(100, 100)))
    monkeypatch.setattr(slide, "MAX_VIEW_PX", 25 * 25)
    assert source.view(0.25).shape == (3, 25, 25)
    with pytest.raises(BadImage, match=r"view at scale .* would have"):
        source.view(0.3)


def test_a_view_of_more_pixels_than_can_be_read_is_refused(monkeypatch, tmp_path):
    source = SlideImage(write_pyramid(tmp_path / "a.tif", noise(100, 100), noise(50, 50)))
    monkeypatch.setattr(slide, "MAX_LEVEL_PX", 50 * 50)
    assert source.view(0.5).shape == (3, 50, 50)
    for read in (source.view, source.rows):
        with pytest.raises(BadImage, match=r"a\.tif: its view at scale 1 would be made of 0 megapixels"):
            read(1.0)


def test_a_damaged_tile_is_named_by_its_file(tmp_path):
    path = write_pyramid(tmp_path / "damaged.tif", noise(100, 100))
    with tifffile.TiffFile(path) as tiff:
        offset = tiff.pages.first.dataoffsets[5]
    content = bytearray(path.read_bytes())
    content[offset : offset + 40] = b"x" * 40
    path.write_bytes(content)
    source = open_image(path)
    source.regions(torch.tensor([[0, 0, 20, 20]]))  # other tiles are still good
    with pytest.raises(BadImage, match=r"damaged\.tif: damaged: Box\(left=0.*level 0"):
        source.view(1 / 2)


SLIDES = {  # file → (height, width) of its levels
    "cmu_small_region.svs": ((2967, 2220),),
    "tcga-cr-7395-01a-01-ts1.svs": ((3567, 4443), (1783, 2221)),
    "kidney-48-5.tif": ((901, 1493),),
}


@pytest.fixture(params=SLIDES)
def real_slide(request, shared_data) -> Path:
    return shared_data / "slides" / request.param


def read_whole(path: Path) -> np.ndarray:
    if path.suffix == ".svs":
        with openslide.OpenSlide(path) as whole:
            return np.array(whole.read_region((0, 0), 0, whole.dimensions).convert("RGB"))
    return np.array(Image.open(path).convert("RGB"))


def test_real_slides_give_their_pixels(real_slide):
    source = open_image(real_slide)
    levels = SLIDES[real_slide.name]
    assert source.size == levels[0]
    if isinstance(source, SlideImage):
        assert source.pyramid.sizes == levels
    whole = to_tensor(read_whole(real_slide))
    height, width = source.size
    boxes = torch.tensor([[0, 0, 90, 70], [700, 500, 790, 570], [width - 30, height - 20, width + 60, height + 50]])
    regions = source.regions(boxes)
    assert_close(regions[0], whole[:, :70, :90])
    assert_close(regions[1], whole[:, 500:570, 700:790])
    assert_close(regions[2, :, :20, :30], whole[:, -20:, -30:])
    assert not regions[2, :, 20:].any()
    # The scanner made its small level sharper than an average: edges differ, areas do not.
    tolerance = 0.5 / 255 if len(levels) == 1 else 0.03
    expected = make_view(whole[None], 1 / 20)[0]
    assert (source.view(1 / 20) - expected).abs().mean() < tolerance
    assert source.view(1 / 20).shape == expected.shape


def test_overlapping_regions_decode_a_tile_once(monkeypatch, tmp_path):
    decoded = watch_decoding(monkeypatch)
    pixels = noise(96, 128)
    source = SlideImage(write_pyramid(tmp_path / "a.tif", pixels))
    corners = torch.tensor([[left, top] for top in range(0, 64, 8) for left in range(0, 96, 8)])
    regions = source.regions(torch.cat([corners, corners + 32], dim=1))
    for region, (left, top) in zip(regions, corners.tolist(), strict=True):
        assert_close(region, to_tensor(pixels)[:, top : top + 32, left : left + 32], atol=1e-6, rtol=0)
    assert len(decoded) == len(set(decoded)) == 12


@pytest.fixture
def without_openslide(monkeypatch):
    monkeypatch.setitem(extras.EXTRAS, "slides", ("no_such_module",))


@pytest.mark.usefixtures("without_openslide")
def test_without_openslide_a_scanners_slide_asks_for_it(tmp_path):
    (tmp_path / "scan.svs").write_bytes(b"II*\0" + bytes(8))
    with pytest.raises(BadImage, match=r"need OpenSlide: pip install 'saccade\[slides\]'"):
        open_image(tmp_path / "scan.svs")


@pytest.mark.usefixtures("without_openslide")
def test_without_openslide_tiled_tiffs_are_read_all_the_same(tmp_path):
    pixels = noise(64, 96)
    path = write_pyramid(tmp_path / "a.tif", pixels)
    assert_close(open_image(path).regions(torch.tensor([[8, 4, 40, 36]]))[0], to_tensor(pixels[4:36, 8:40]))
    with pytest.raises(BadImage, match=r"if it is a tiled pyramid, it needs OpenSlide"):
        FileImage(path, max_pixels=100).view(1.0)
