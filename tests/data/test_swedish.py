"""Swedish traffic signs: the published counts from the real annotation files, and the published layout."""

from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from saccade.data.loading import load
from saccade.data.records import DataError
from saccade.data.swedish import read_annotations

ANNOTATIONS = """\
empty.jpg:\r
misc.jpg:MISC_SIGNS;\r
fifty.jpg:MISC_SIGNS;VISIBLE, 120.5, 90.2, 100.5, 70.1, PROHIBITORY, 50_SIGN;BLURRED, 3, 4, 1, 2, INFO, 80_SIGN;\r
two.jpg:VISIBLE, 20, 20, 10, 10, PROHIBITORY, 70_SIGN;VISIBLE, 60, 60, 40, 30, PROHIBITORY, 80_SIGN;\r
blurred.jpg:BLURRED, 3l, 40, 10, 20, PROHIBITORY, 70_SIGN;\r
other.jpg:VISIBLE, 30, 40, 10, 20, PROHIBITORY, 60_SIGN;\r
\r
beyond.jpg:VISIBLE, 30, 40, -2.5, 20, PROHIBITORY, 70_SIGN; \r
"""


@pytest.fixture
def published(tmp_path) -> Path:
    for name in ("Set1Part0", "Set2Part0"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "annotations.txt").write_bytes(ANNOTATIONS.encode())
        for copy in ("", "1", "2"):
            for image in ("empty", "misc", "fifty", "two", "beyond"):
                Image.new("RGB", (128, 96)).save(folder / f"{image}{copy}.jpg")
        copies = "".join(ANNOTATIONS.replace(".jpg", f"{copy}.jpg") for copy in ("", "1", "2"))
        (folder / "annotations.txt").write_bytes(copies.encode())
    return tmp_path


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        ("annotations.txt", {"EMPTY": 486, "50": 79, "70": 123, "80": 59}),
        ("annotations_test.txt", {"EMPTY": 451, "50": 86, "70": 83, "80": 64}),
    ],
)
def test_the_published_counts_by_both_rules(shared_data, file, counts):
    largest, first = (
        read_annotations(shared_data / "swedish_annotations" / file, rule=rule) for rule in ("largest", "first")
    )
    assert Counter(image.label for image in largest) == counts
    assert [(image.file, image.label) for image in largest] == [(image.file, image.label) for image in first]
    for image in largest:
        assert len(image.boxes) == (image.label != "EMPTY")
        for left, top, right, bottom in image.boxes:
            assert 0 <= left < right <= 1280 + 1
            assert 0 <= top < bottom <= 960 + 1


def test_labels_and_boxes_by_hand(tmp_path):
    (tmp_path / "annotations.txt").write_bytes(ANNOTATIONS.encode())
    labeled = read_annotations(tmp_path / "annotations.txt")
    assert [tuple(image) for image in labeled] == [
        ("empty.jpg", "EMPTY", ()),
        ("misc.jpg", "EMPTY", ()),
        ("fifty.jpg", "50", ((100, 70, 121, 91),)),
        ("two.jpg", "80", ((40, 30, 60, 60),)),
        ("beyond.jpg", "70", ((0, 20, 30, 40),)),
    ]
    assert [image.label for image in read_annotations(tmp_path / "annotations.txt", rule="first")][3] == "70"


def test_the_published_layout(published):
    records = load(published)
    assert records.classes == ("EMPTY", "50", "70", "80")
    counts = records.counts()
    assert counts["test"] == {"EMPTY": 6, "50": 3, "70": 3, "80": 3}
    assert counts["val"] == {"EMPTY": 1, "50": 1, "70": 1, "80": 1}
    assert counts["train"] == {"EMPTY": 5, "50": 2, "70": 2, "80": 2}
    assert {record.image.parent.name for record in records.split("test").records} == {"Set2Part0"}
    assert load(published, rule="first").counts()["test"] == {"EMPTY": 6, "50": 3, "70": 6, "80": 0}


def test_a_missing_image_or_set_is_named(published):
    (published / "Set2Part0" / "two.jpg").unlink()
    with pytest.raises(
        DataError, match=r"Set2Part0/two.jpg: listed in annotations.txt and not there; unpack Set2Part0.zip"
    ):
        load(published)
    (published / "Set1Part0" / "annotations.txt").unlink()
    with pytest.raises(DataError, match=r"no Set1Part0/annotations.txt"):
        load(published)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a.jpg:VISIBLE, 1, 2, 3;", "line 2: expected file:sign;sign;… of visibility, x_max"),
        ("a.jpg:VISIBLE, 4, x, 1, 2, PROHIBITORY, 50_SIGN;", "line 2: expected .* got 'a.jpg:VISIBLE, 4, x,"),
    ],
)
def test_a_damaged_line_is_named(tmp_path, line, message):
    (tmp_path / "annotations.txt").write_text(f"a.jpg:\n{line}\n")
    with pytest.raises(DataError, match=message):
        read_annotations(tmp_path / "annotations.txt")


def test_an_unknown_rule_or_option(published):
    with pytest.raises(DataError, match="unknown label rule 'best': choose one of largest, first"):
        load(published, rule="best")
    with pytest.raises(DataError, match="of the kind 'swedish', which has no option task"):
        load(published, task="max-left-right")
