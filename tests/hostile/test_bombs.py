"""Small files that take much: refused before anything is allocated, or read within the limits. Never over 2 GB."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from saccade.images.decoding_cost import peak_bytes
from saccade.images.image_formats import open_lazily
from saccade.images.jpeg_scans import count_scans
from tests.hostile.bombs import BOMBS, LARGE_BOMBS, jpeg_of_many_scans

READ_ALONE = [sys.executable, str(Path(__file__).with_name("read_alone.py"))]
PEAK_MB, INTERPRETER_MB, PROCESSOR_S = 2**31 / 1e6, 100, 20

REFUSED = {
    "icon.ico": "not an image",
    "icon_called_png.png": "not an image",
    "apple.icns": "not an image",
    "screen.gif": "17000×17000 is 289 megapixels, the limit is 268",
    "scans.jpg": "a JPEG of more than 100 scans",
    "sparse_deep.tif": "16000×16000 is an image that takes",
    "tile.tif": "64×64 is an image that takes",
    "depth.tif": "64×64 is an image that takes",
    "wide.tif": "is 34,360 megapixels",
    "largest_gray16.png": "16000×16000 is an image that takes 3.6 GB to read, the limit is 1.9 GB",
}


def read_alone(path: Path) -> dict:
    done = subprocess.run([*READ_ALONE, str(path)], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def expect_bounded(path: Path) -> dict:
    found = read_alone(path)
    reason = REFUSED.get(path.name)
    assert found["peak_mb"] <= PEAK_MB, found
    assert not reason or reason in found["said"], found["said"]
    assert not reason or found["peak_mb"] < 500, found  # who refuses has allocated nothing
    return found


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_takes_little_or_is_refused(name, tmp_path):
    BOMBS[name](tmp_path / name)
    assert (tmp_path / name).stat().st_size < 5e6
    assert expect_bounded(tmp_path / name)["seconds"] < PROCESSOR_S


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE_BOMBS)
def test_a_large_picture_takes_no_more_than_was_reckoned(name, tmp_path):
    LARGE_BOMBS[name](tmp_path / name)
    found = expect_bounded(tmp_path / name)
    with open_lazily(tmp_path / name) as image:
        reckoned = peak_bytes(image, held_channels=len(image.getbands()))
    assert found["peak_mb"] < INTERPRETER_MB + reckoned / 1e6


def test_scans_are_counted_without_decoding(tmp_path):
    (tmp_path / "a.jpg").write_bytes(jpeg_of_many_scans(40, side=64))
    found = count_scans(tmp_path / "a.jpg")
    assert 40 < found.count < 60
    assert found.held_channels == 1
