"""Images behind URLs are the images of files: the same pixels, the same lines, and no more bytes than are looked at."""

import pickle
from pathlib import Path

import pytest
import torch
from PIL import Image

from saccade.images import BadImage, Guard, SlideImage, open_image, open_url
from saccade.images.guarded import SUPPORTED
from saccade.predict.reading import Reader

BOX = torch.tensor([[1000, 700, 1100, 800]])


@pytest.mark.parametrize(
    "guarded", [False, pytest.param(True, marks=pytest.mark.skipif(not SUPPORTED, reason="Linux"))]
)
def test_of_a_tiled_tiff_only_tiles_are_fetched(server, slide, guarded):
    with Guard() as guard:
        source = open_url(f"{server.url}/slide.tif", guard=guard if guarded else None)
        assert isinstance(source, SlideImage)
        for each in (source, pickle.loads(pickle.dumps(source))):
            torch.testing.assert_close(each.regions(BOX), open_image(slide).regions(BOX), rtol=0, atol=0)
        assert server.sent_bytes < slide.stat().st_size / 10


def test_a_line_that_stays_broken_is_that_files_error_and_the_guard_goes_on(server, slide):
    with Guard() as guard:
        source = open_url(f"{server.url}/slide.tif", guard=guard)
        server.trouble = ["503"] * 100
        with pytest.raises(OSError, match="the server answers 503, 4 times in a row"):
            source.regions(BOX)
        server.trouble = []
        torch.testing.assert_close(source.regions(BOX), open_image(slide).regions(BOX), rtol=0, atol=0)


def test_without_ranges_it_is_fetched_whole(server, slide):
    server.ranges = False
    source = open_url(f"{server.url}/slide.tif")
    torch.testing.assert_close(source.regions(BOX), open_image(slide).regions(BOX), rtol=0, atol=0)


def test_damaged_behind_a_url_is_damaged(server):
    (server.folder / "a.jpg").write_bytes(b"no image")
    with pytest.raises(BadImage, match="not an image"):
        Reader()(f"{server.url}/a.jpg")


def test_only_text_is_a_url(server, monkeypatch, tmp_path):
    """What a server gets is a path, and what is written in a file is never followed."""
    Image.new("RGB", (8, 8)).save(server.folder / "a.png")
    asked = f"{server.url}/a.png"
    with pytest.raises(BadImage, match="no such file"):
        Reader(single_file=True)(Path(asked))
    with pytest.raises(ValueError, match="is not opened"):
        Reader(single_file=True)(asked)
    assert server.asked == []
