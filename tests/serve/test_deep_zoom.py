"""Tiles put side by side are the picture, from memory and from a pyramid alike."""

import numpy as np
import pytest
from PIL import Image
from served import as_pixels, as_png, as_pyramid, scene

from saccade.images.pyramid import TiffPyramid
from saccade.serve import tiles as module
from saccade.serve.tiles import PixelTiles, SlideTiles, Tiles, last_level, make_tile


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr(module, "TILE_PX", 64)


def put_together(tiles: Tiles, level: int) -> np.ndarray:
    rows, y = [], 0
    while (first := make_tile(tiles, level, 0, y)) is not None:
        row, x = [], 0
        data: bytes | None = first
        while data is not None:
            row.append(as_pixels(data))
            x += 1
            data = make_tile(tiles, level, x, y)
        rows.append(np.concatenate(row, axis=1))
        y += 1
    return np.concatenate(rows)


@pytest.mark.parametrize("size", [(64, 64), (65, 130), (300, 700), (1, 1000)])
def test_levels_are_the_picture_halved(tmp_path, size):
    pixels = scene(384, 768)[: size[0], : size[1]]
    (tmp_path / "photo").write_bytes(as_png(pixels))
    tiles = PixelTiles(tmp_path / "photo", pixels.shape[:2])
    assert tiles.num_bytes == 0  # nothing is decoded before it is looked at
    last = last_level(size)
    assert put_together(tiles, 0).shape[0] <= 64
    assert make_tile(tiles, last + 1, 0, 0) is None
    for level in range(last + 1):
        expected = np.asarray(Image.fromarray(pixels).reduce(2 ** (last - level)))
        shown = put_together(tiles, level)
        assert shown.shape == expected.shape
        assert np.abs(shown.astype(int) - expected).mean() < 2.5  # of 255: JPEG, and halving step by step


@pytest.mark.parametrize("halvings", [(1, 2), (3,), ()])  # the second jumps, the third has no coarser level at all
@pytest.mark.parametrize(("size", "atol"), [((256, 512), 1.5), ((261, 518), 2.5)])  # odd sides are rounded up
def test_slide_shows_what_memory_shows(tmp_path, halvings, size, atol):
    pixels = scene(*size)
    (tmp_path / "slide").write_bytes(as_pyramid(pixels, halvings))
    (tmp_path / "photo").write_bytes(as_png(pixels))
    slide, memory = SlideTiles(tmp_path / "slide", size), PixelTiles(tmp_path / "photo", size)
    for level in range(last_level(slide.size) + 1):
        ours, theirs = put_together(slide, level), put_together(memory, level)
        assert ours.shape == theirs.shape
        assert np.abs(ours.astype(int) - theirs).mean() < atol


def test_slide_is_read_in_small_parts(tmp_path, monkeypatch):
    (tmp_path / "slide").write_bytes(as_pyramid(scene(1024, 1024), ()))
    areas, read = [], TiffPyramid.read
    monkeypatch.setattr(
        TiffPyramid,
        "read",
        lambda slide, level, box: areas.append((box[2] - box[0]) * (box[3] - box[1])) or read(slide, level, box),
    )
    make_tile(SlideTiles(tmp_path / "slide", (1024, 1024)), 0, 0, 0)
    assert sum(areas) == 1024**2
    assert max(areas) <= (4 * 64) ** 2


def test_floats_are_shown_as_bytes(tmp_path):
    gray = np.linspace(0, 1, 48, dtype=np.float32).reshape(1, 48).repeat(48, 0)
    Image.fromarray(gray).save(tmp_path / "gray.tif")
    tile = make_tile(PixelTiles(tmp_path / "gray.tif", (48, 48)), 0, 0, 0)
    assert tile is not None
    assert np.abs(as_pixels(tile) - 255 * gray[..., None]).max() < 4
