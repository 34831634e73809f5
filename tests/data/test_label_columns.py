"""What labels mean is found from all of them, and what cannot be meant is told with its line and what to do."""

import csv

import pytest
from PIL import Image

from saccade.data import DataError, load
from saccade.tasks.labels import Question


@pytest.fixture
def table(tmp_path):
    """Writes a table of as many images as it has rows, the header first."""

    def write(header, *rows):
        lines = [("image", *header), *((f"{number}.png", *row) for number, row in enumerate(rows))]
        for number, (name, *_) in enumerate(lines[1:]):  # each another picture, for the same ones are never parted
            Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / name)
        with (tmp_path / "labels.csv").open("w", newline="") as file:
            csv.writer(file).writerows(lines)
        return tmp_path / "labels.csv"

    return write


def test_labels_parted_by_semicolons_are_several(table):
    records = load(table(["label"], *[["spur; open"], ["open"], [";"], ["spur"]] * 3))
    assert (records.task, records.classes) == ("multi", ("open", "spur"))
    assert {record.label for record in records.records} == {"open;spur", "open", ";", "spur"}
    whole = {name: sum(counts[name] for counts in records.counts().values()) for name in records.classes}
    assert whole == {"open": 6, "spur": 6}
    assert sum(records.sizes().values()) == 12
    assert any("several names" in note for note in records.notes)


def test_columns_of_zeros_and_ones_are_several_labels(table):
    path = table(["short", "open", "split"], *[["1", "1", "train"], ["0", "0", "val"], ["1", "0", "test"]])
    records = load(path)
    assert (records.task, records.classes) == ("multi", ("short", "open"))
    assert [record.label for record in records.records] == ["short;open", ";", "short"]


def test_numbers_of_which_hardly_any_is_there_twice_are_numbers(table):
    rows = [[str(0.37 * number)] for number in range(40)]
    records = load(table(["label"], *rows))
    assert (records.task, records.classes) == ("regression", ())
    assert any("40 different numbers" in note and "--task single" in note for note in records.notes)
    values = {split: [float(r.label) for r in records.split(split).records] for split in ("train", "val", "test")}
    assert all(min(each) < 5 and max(each) > 9 for each in values.values())  # dealt by fifths


def test_a_few_numbers_are_classes_unless_they_are_said_to_be_levels(table):
    path = table(["label"], *[["0"], ["0.667"], ["0.333"], ["1"]] * 4)
    assert load(path).task == "single"
    records = load(path, labels="ordinal")
    assert (records.task, records.classes) == ("ordinal", ("0", "0.333", "0.667", "1"))
    assert load(path, labels="regression").task == "regression"


def test_several_questions_have_a_column_each(table):
    path = table(["label:part", "label:defect"], *[["cap", "scratch;dent"], ["lid", ";"], ["cap", "dent"]] * 4)
    records = load(path)
    assert records.task == "questions"
    assert records.questions == (
        Question("part", "single", ("cap", "lid")),
        Question("defect", "multi", ("dent", "scratch")),
    )
    assert records.classes == ("part: cap", "part: lid", "defect: dent", "defect: scratch")
    assert records.records[0].label == "cap | dent;scratch"
    assert records.names(records.records[0]) == ("part: cap", "defect: dent", "defect: scratch")


def test_a_question_can_be_told_its_task(table):
    path = table(["label:part", "label:grade"], *[["cap", "0"], ["lid", "2"], ["cap", "1"]] * 4)
    questions = load(path, labels="grade=ordinal").questions
    assert [question.task for question in questions] == ["single", "ordinal"]
    with pytest.raises(DataError, match="expected QUESTION=TASK for some of part, grade"):
        load(path, labels="ordinal")


def test_boxes_may_say_what_they_show(table):
    path = table(["label", "boxes"], *[["big dent;spur", "0 0 4 4 big dent; 2 2 8 8 spur"], ["spur", "1 1 2 2"]] * 3)
    first, second, *_ = load(path).records
    assert first.boxes == ((0, 0, 4, 4), (2, 2, 8, 8))
    assert first.kinds == ("big dent", "spur")
    assert second.kinds == ()
    with pytest.raises(DataError, match="line 2: a box shows 'hole', which is no label; labels are big dent, spur"):
        load(table(["label", "boxes"], ["big dent;spur", "0 0 4 4 hole"], ["spur", ""]))


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (
            ["1.5", "2.25", "high", "3"],
            "line 4: the label 'high' is no number, and most others are numbers; correct it",
        ),
        (["cat", "dog", "dog", "7"], "line 5: the label '7' is a number, and most others are words; correct it"),
        (
            ["open", "short", "open|short", "open"],
            r"line 4: the label 'open\|short' looks like 2 labels; part them by ';'",
        ),
        (["open;short", "open, short"], "line 3: the label 'open, short' looks like 2 labels; part them by ';'"),
        (["open;short", "open;;short"], "line 3: the label 'open;;short' has nothing beside a ';'; take that out"),
        (["open;short", "open;open"], "line 3: the label 'open;open' has a name twice; keep one"),
        (["open;short", ""], "line 3: no label for '1.png'; every image needs one .a lone ; where it has none"),
    ],
)
def test_what_cannot_be_meant_is_told_with_its_line(table, labels, said):
    with pytest.raises(DataError, match=said) as raised:
        load(table(["label"], *[[label] for label in labels]))
    assert "\n" not in str(raised.value)


def test_names_of_classes_may_look_like_anything_if_the_user_says_so(table):
    path = table(["label"], *[["open"], ["short"], ["open|short"], ["7"]] * 3)
    assert load(path, labels="single").classes == ("7", "open", "open|short", "short")


def test_levels_must_be_numbers(table):
    path = table(["label"], *[["low"], ["high"]] * 3)
    with pytest.raises(DataError, match="line 2: the label 'low' is no number, which this task needs"):
        load(path, labels="ordinal")
    with pytest.raises(DataError, match="task of the labels is 'ranks': expected one of single, multi, ordinal"):
        load(path, labels="ranks")


def test_a_column_of_other_words_is_no_column_of_zeros_and_ones(table):
    with pytest.raises(DataError, match="line 2: 'cat' in the column 'animal': expected 0 or 1"):
        load(table(["animal"], ["cat"], ["dog"]))
