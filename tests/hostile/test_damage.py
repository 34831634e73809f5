"""No file stops a batch: whatever it is, it is a picture or one line with its name."""

import io
import logging
import os
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFile
from rich.console import Console

from saccade.data.dataset import ImageDataset
from saccade.data.inspection import Report, examine, show
from saccade.data.loading import load
from saccade.data.records import DataError, Record, Records
from saccade.files import shown
from saccade.images import BadImage, Fault
from saccade.images.decode import read_pixels
from saccade.images.guarded import SUPPORTED
from tests.hostile.batches import EVIL, write_odd_names
from tests.hostile.bombs import tiff
from tests.hostile.fuzz import run
from tests.hostile.mutations import sound_files


@pytest.mark.skipif(not SUPPORTED, reason="without a process that can be killed a damaged file may end the tests")
def test_damaged_files_are_pictures_or_bad_images_and_check_agrees_with_training(tmp_path):
    assert run(tmp_path, 405, seed=0) is None


def test_the_sound_files_are_read_as_far_as_they_are_documented(tmp_path):
    for name, data in sound_files().items():
        path = tmp_path / name
        path.write_bytes(data)
        if path.suffix in (".dds", ".ico"):
            with pytest.raises(BadImage, match="not an image, or of a kind that is not read") as caught:
                read_pixels(path)
            assert caught.value.fault is Fault.UNKNOWN
        else:
            assert read_pixels(path).shape == ((64, 48, 3) if name == "3.jpg" else (48, 64, 3))


RAISED = (
    *(RuntimeError("boom"), NotImplementedError(), MemoryError(), zlib.error("-3"), AssertionError(), RecursionError()),
    *(KeyError("x"), OverflowError("x"), UnicodeDecodeError("utf8", b"", 0, 1, "x"), EOFError(), Exception("x")),
)


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_whatever_a_reader_raises_is_its_files_error(tmp_path, monkeypatch, error):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")

    def fail(self):
        raise error

    monkeypatch.setattr(ImageFile.ImageFile, "load", fail)
    with pytest.raises(BadImage, match=r"a\.png: ") as caught:
        read_pixels(tmp_path / "a.png")
    assert caught.value.__cause__ is error
    assert (caught.value.fault is Fault.MEMORY) == isinstance(error, MemoryError)


def test_ctrl_c_is_no_fault_of_a_file(tmp_path, monkeypatch):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")

    def interrupt(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(ImageFile.ImageFile, "load", interrupt)
    with pytest.raises(KeyboardInterrupt):
        read_pixels(tmp_path / "a.png")


def test_a_tiff_of_one_sample_that_says_rgb_is_refused_by_check_and_training_alike(tmp_path):
    tags = {256: (4, [8]), 257: (4, [8]), 258: (3, [8]), 259: (3, [1]), 262: (3, [2]), 277: (3, [1])}
    layout = {273: (4, [200]), 278: (4, [8]), 279: (4, [64])}
    (tmp_path / "one.tif").write_bytes(tiff(tags | layout).ljust(200, b"\0") + bytes(64))
    records = Records(tmp_path, ("cat",), (Record(tmp_path / "one.tif", "cat", "train"),))
    (finding,) = examine(records, workers=1)
    assert "this kind of TIFF cannot be read" in str(finding.bad)
    with pytest.raises(BadImage, match="this kind of TIFF cannot be read"):
        ImageDataset(records)[0]


@pytest.fixture
def odd_set(tmp_path) -> Path:
    """Two classes of sound images, and in one of them whatever a folder may hold."""
    for label in ("cat", "dog"):
        (tmp_path / "set" / label).mkdir(parents=True)
        for number in range(8):
            pixels = np.full((8, 8, 3), 20 * number + (label == "dog"), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "set" / label / f"{number}.png")
    write_odd_names(tmp_path / "set" / "cat")
    return tmp_path / "set"


ODD = 6  # files that cannot be read; the folder is a folder, and empty


def test_a_check_goes_through_whatever_lies_in_a_folder(odd_set):
    records = load(odd_set)
    report = Report(records, tuple(examine(records, workers=2, stream=True)))
    assert len(report.bad()) == ODD
    console = Console(file=io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), force_terminal=True, width=60)
    show(report, console)
    console.file.flush()
    text = console.file.buffer.getvalue().decode()  # type: ignore[attr-defined]
    assert "\x1b[2J" not in text
    lines = text.splitlines()
    for name in ("pipe.jpg", "zero.jpg", "gone.jpg", "circle.jpg", r"evil\x1b[2J\nname.jpg", r"latin\udce9.jpg"):
        assert sum("unreadable: " in line and name in line for line in lines) == 1, name


def test_training_leaves_out_whatever_cannot_be_read(odd_set, caplog):
    records = load(odd_set)
    with caplog.at_level(logging.WARNING):
        dataset = ImageDataset(records, skip_bad=True)
    assert len(dataset) == 16
    assert len(dataset.bad) == ODD
    assert all(dataset[number].image.shape == (3, 8, 8) for number in range(16))
    assert "\x1b" not in caplog.text


def test_without_leaving_out_it_stops_at_once_with_the_name(odd_set):
    records = load(odd_set)
    number = next(n for n, record in enumerate(records.records) if record.image.name == "pipe.jpg")
    with pytest.raises(BadImage, match=r"pipe\.jpg: a pipe, socket or device"):
        ImageDataset(records)[number]


def test_a_table_may_name_a_pipe_which_is_then_one_bad_file(odd_set):
    lines = "".join(f"cat/{name}.png,cat\ndog/{name}.png,dog\n" for name in range(8))
    (odd_set / "labels.csv").write_text(f"image,label\n{lines}cat/pipe.jpg,cat\n")
    records = load(odd_set / "labels.csv")
    assert [bad.path.name for bad in Report(records, tuple(examine(records))).bad()] == ["pipe.jpg"]


def test_names_are_shown_on_one_line_and_obeyed_by_no_terminal():
    assert str(BadImage(Path(EVIL), "reason\x1b]0;title\x07")) == r"evil\x1b[2J\nname.jpg: reason\x1b]0;title\x07"
    assert str(DataError(f"{EVIL}: no")) == r"evil\x1b[2J\nname.jpg: no"
    assert shown("Größe 大 é.jpg") == "Größe 大 é.jpg"
    assert shown("\u202egnp.exe") == r"\u202egnp.exe"  # which would be shown backwards
    assert shown(os.fsdecode(b"\xff")).encode() == rb"\udcff"
