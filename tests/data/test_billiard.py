"""Billiard: the four questions by hand, and the published layout."""

import json
from pathlib import Path

import pytest
from PIL import Image

from saccade.data.billiard import TASKS
from saccade.data.loading import load
from saccade.data.records import DataError

# Listed neither by x nor by number; y and z must not matter.
GREEN_LEFT = [
    {"position": [0.3, 9.0, 1.0], "number": 9, "color": "red"},
    {"position": [-0.9, 5.0, 1.0], "number": 4, "color": "green"},
    {"position": [0.8, -7.0, 1.0], "number": 6, "color": "blue"},
    {"position": [0.1, 0.0, 1.0], "number": 2, "color": "yellow"},
]
YELLOW_LEFT = [GREEN_LEFT[0], {**GREEN_LEFT[3], "position": [-2.0, 0.0, 1.0]}, GREEN_LEFT[1]]


def put(root: Path, folder: str, number: int, balls: list[dict]) -> None:
    (root / folder).mkdir(parents=True, exist_ok=True)
    Image.new("RGBA", (10, 10)).save(root / folder / f"{number}.png")
    (root / folder / f"{number}.json").write_text(json.dumps(balls))


@pytest.fixture
def published(tmp_path) -> Path:
    for number in range(9):  # every class of max-left-right needs a training image
        put(tmp_path, "train", number, [{"position": [0.0, 0.0], "number": number + 1, "color": "red"}])
        put(tmp_path, "train", number + 9, [{"position": [0.0, 0.0], "number": number + 1, "color": "red"}])
    put(tmp_path, "valid", 0, GREEN_LEFT)
    put(tmp_path, "test", 10, YELLOW_LEFT)
    put(tmp_path, "test", 2, GREEN_LEFT)
    return tmp_path


@pytest.mark.parametrize(
    ("task", "green", "yellow"),
    [
        ("max-left-right", 6, 9),  # max(4, 6); max(2, 9)
        ("rightmost-number", 6, 9),
        ("sum-all-modulo-10", 1, 5),  # 21; 15
        ("left-colour-min-max", 2, 9),  # min(9 4 6 2); max(9 2 4)
    ],
)
def test_the_four_tasks_by_hand(task, green, yellow):
    assert TASKS[task].answer(GREEN_LEFT) == green
    assert TASKS[task].answer(YELLOW_LEFT) == yellow
    assert {str(green), str(yellow)} <= set(TASKS[task].classes)


def test_class_numbers_are_the_published_ones():
    assert TASKS["max-left-right"].classes.index("1") == 0  # the published label is the number − 1
    assert len(TASKS["max-left-right"].classes) == 9
    assert TASKS["sum-all-modulo-10"].classes.index("0") == 0
    assert len(TASKS["sum-all-modulo-10"].classes) == 10


def test_the_published_layout(published):
    records = load(published)
    assert {split: len(records.split(split).records) for split in ("train", "val", "test")} == {
        "train": 18,
        "val": 1,
        "test": 2,
    }
    assert [record.image.name for record in records.split("train").records] == [f"{number}.png" for number in range(18)]
    assert [(record.image.name, record.label) for record in records.split("test").records] == [
        ("2.png", "6"),
        ("10.png", "9"),
    ]


def test_boxes_are_kept_where_given(published):
    put(published, "test", 2, [{**ball, "bbox": [1, 2, 5, 6]} for ball in GREEN_LEFT])
    assert load(published).split("test").records[0].boxes == ((1, 2, 5, 6),) * 4


def test_mistakes_are_named(published):
    with pytest.raises(DataError, match="unknown billiard task 'max'"):
        load(published, task="max")
    (published / "train" / "3.png").unlink()
    with pytest.raises(DataError, match=r"train/3.json: no 3.png beside it"):
        load(published)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[{", "not JSON"),
        ("[]", "expected balls with position, number and color"),
        ('[{"number": 3}]', "expected balls with position, number and color"),
        ('[{"position": [0], "number": 12, "color": "red"}]', "the answer is 12, expected 1 to 9"),
    ],
)
def test_a_damaged_description_is_named(published, content, message):
    (published / "valid" / "0.json").write_text(content)
    with pytest.raises(DataError, match=f"valid/0.json: .*{message}"):
        load(published)


def test_a_color_the_task_does_not_know(published):
    put(published, "test", 2, [{"position": [0], "number": 1, "color": "pink"}])
    with pytest.raises(DataError, match="the leftmost ball is 'pink', this task knows green, blue"):
        load(published, task="left-colour-min-max")
