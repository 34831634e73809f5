"""Corrections in a table: one line changes, all other bytes stay, and nothing is ever half written."""

import os
from pathlib import Path

import pytest
from PIL import Image

from saccade.data import load
from saccade.data.label_table import LabelTable
from saccade.data.loading import load_as_given, table_of
from saccade.data.records import DataError


def make(folder: Path, text: str, names: tuple[str, ...] = ("a.png", "b.png", "c.png")) -> LabelTable:
    for name in names:
        Image.new("L", (8, 8)).save(folder / name)
    (folder / "labels.csv").write_bytes(text.encode())
    return LabelTable(table_of(folder), load_as_given(folder))


# A byte order mark, other line ends, a column that nobody knows, quotes, an empty line, no line end at the end.
ODD = "\ufeffImage, Label,split,note\r\na.png,cat,train,\"x,\r\n y\"\r\n\r\nb.png,%s,train,'q'\r\nc.png,cat,test,"
SEVERAL = 'image,label\na.png,"open; short"\nb.png,%s\nc.png,;\n'
FLAGS = "image,big,old\na.png,1,0\nb.png,%s\nc.png,0,1\n"
QUESTIONS = "image,label:of,label:at\na.png,tin,left\nb.png,%s\nc.png,zinc,right\n"


@pytest.mark.parametrize(
    ("text", "before", "label", "after"),
    [
        (ODD, "dog", "cat", "cat"),
        (SEVERAL, "short", "short;open", "open;short"),
        (SEVERAL, "short", ";", ";"),
        (FLAGS, "0,0", "big;old", "1,1"),
        (QUESTIONS, "tin,left", "zinc | left", "zinc,left"),
    ],
    ids=["single", "multi", "none of several", "flags", "questions"],
)
def test_one_line_changes_and_all_other_bytes_stay(tmp_path, text, before, label, after):
    table = make(tmp_path, text % before)
    table.change(tmp_path / "b.png", label)
    assert (tmp_path / "labels.csv").read_bytes().decode() == text % after
    assert table.backup.read_bytes().decode() == text % before
    # What is read back is what was written.
    assert {each.image: each.label for each in load_as_given(tmp_path).records} == table.labels
    assert sorted(file.name for file in tmp_path.glob("labels*")) == ["labels.csv", table.backup.name]


NUMBERS = "image,label\n" + "".join(f"{n}.png,{n}.5\n" for n in range(30))


def test_numbers_are_written_as_they_are_typed(tmp_path):
    table = make(tmp_path, NUMBERS, tuple(f"{n}.png" for n in range(30)))
    table.change(tmp_path / "7.png", "12.25")
    assert (tmp_path / "labels.csv").read_text() == NUMBERS.replace("7.png,7.5", "7.png,12.25", 1)
    with pytest.raises(DataError, match="'much' is no number"):
        table.change(tmp_path / "7.png", "much")


def test_a_second_change_keeps_the_first_backup(tmp_path):
    before = "image,label\na.png,cat\nb.png,dog\nc.png,cat\n"
    table = make(tmp_path, before)
    table.change(tmp_path / "a.png", "dog")
    table.change(tmp_path / "a.png", "cat")
    assert (tmp_path / "labels.csv").read_text() == table.backup.read_text() == before


def test_a_slip_of_the_pen_is_no_new_class(tmp_path):
    before = "image,label\na.png,cat\nb.png,dog\nc.png,cat\n"
    table = make(tmp_path, before)
    with pytest.raises(DataError, match="no such class cta; expected cat, dog"):
        table.change(tmp_path / "a.png", "cta")
    assert (tmp_path / "labels.csv").read_text() == before
    assert not table.backup.exists()


def test_a_table_that_somebody_else_changed_is_left_alone(tmp_path):
    table = make(tmp_path, "image,label\na.png,cat\nb.png,dog\nc.png,cat\n")
    theirs = "image,label\na.png,cat\nb.png,dog\nc.png,dog\n"
    (tmp_path / "labels.csv").write_text(theirs)
    with pytest.raises(DataError, match="changed by somebody else"):
        table.change(tmp_path / "a.png", "dog")
    assert (tmp_path / "labels.csv").read_text() == theirs


def test_a_write_that_fails_leaves_the_table_as_it_was(tmp_path, monkeypatch):
    before = "image,label\na.png,cat\nb.png,dog\nc.png,cat\n"
    table = make(tmp_path, before)
    move = os.replace

    def full(part, path):
        if Path(path).name == "labels.csv":
            raise OSError(28, "No space left on device")
        move(part, path)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match=r"labels.csv cannot be written"):
        table.change(tmp_path / "a.png", "dog")
    assert (tmp_path / "labels.csv").read_text() == before
    assert table.labels[tmp_path / "a.png"] == "cat"
    monkeypatch.undo()
    table.change(tmp_path / "a.png", "dog")  # and it can be tried again
    assert load_as_given(tmp_path).records[0].label == "dog"


def test_class_folders_get_a_table_and_keep_their_images_and_splits(tmp_path):
    for name in ("cat/1.png", "cat/2.png", "dog/1.png", "dog/2, old.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("L", (8, 8)).save(tmp_path / name)
    records = load(tmp_path, seed=3, val_share=0.25, test_share=0.25)
    table = LabelTable(table_of(tmp_path), records)
    assert not table.path.exists()
    table.change(tmp_path / "dog/2, old.png", "cat")
    again = load(tmp_path)
    expected = {each.image: (each.label, each.split) for each in records.records}
    expected[tmp_path / "dog/2, old.png"] = ("cat", expected[tmp_path / "dog/2, old.png"][1])
    assert {each.image: (each.label, each.split) for each in again.records} == expected
    assert not table.backup.exists()  # there was nothing to copy


def test_labels_of_archives_and_published_sets_are_not_corrected(tmp_path):
    archive = tmp_path / "images.zip"
    archive.write_bytes(b"PK\x05\x06" + bytes(18))
    with pytest.raises(DataError, match="unpack it"):
        table_of(archive)
    (tmp_path / "images.txt").write_text("1 a/b.jpg\n")
    for name in ("image_class_labels.txt", "train_test_split.txt", "classes.txt", "bounding_boxes.txt"):
        (tmp_path / name).write_text("1 1\n")
    with pytest.raises(DataError, match="kind 'cub'"):
        table_of(tmp_path)
