"""Splits: exact totals, per class, by seed and name alone; test is left alone."""

import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from saccade.data.records import UNSPLIT, DataError, Record, Records, sort_labels
from saccade.data.splits import complete, draw_splits

ROOT = Path("/data")


def make_records(sizes: dict[str, int], split: str = UNSPLIT) -> Records:
    records = [Record(ROOT / label / f"{n:04}.jpg", label, split) for label, size in sizes.items() for n in range(size)]
    return Records(ROOT, tuple(sizes), tuple(records))


def totals(records: Records) -> dict[str, int]:
    return {split: sum(counts.values()) for split, counts in records.counts().items()}


def test_labels_of_one_value_are_in_the_same_order_whatever_order_a_set_has():
    padded = ["7".zfill(width) for width in range(1, 21)]
    assert sort_labels({"8", "6", *padded}) == ("6", *reversed(padded), "8")


def test_a_set_without_splits_gets_70_15_15_of_every_class():
    complete_set = complete(make_records({"cat": 200, "dog": 60}))
    assert complete_set.counts() == {
        "train": {"cat": 140, "dog": 42},
        "val": {"cat": 30, "dog": 9},
        "test": {"cat": 30, "dog": 9},
    }
    assert any("drew val and test from all 260 images" in note and "seed 0" in note for note in complete_set.notes)


def test_the_papers_994_of_5994_birds_in_200_classes():
    birds = make_records({f"bird {n}": 30 if n < 194 else 29 for n in range(200)}, "train")
    assert len(birds.records) == 5994
    drawn = complete(birds, val_share=994 / 5994)
    assert totals(drawn) == {"train": 5000, "val": 994, "test": 0}
    assert set(drawn.counts()["val"].values()) <= {4, 5}  # 30 · 994/5994 = 4.97, 29 · 994/5994 = 4.81


def test_the_draw_depends_on_the_seed_and_the_names_only():
    records = make_records({"cat": 40, "dog": 40})
    shuffled = list(records.records)
    random.Random(1).shuffle(shuffled)
    assert set(complete(records._replace(records=tuple(shuffled)), seed=7).records) == set(
        complete(records, seed=7).records
    )
    assert complete(records, seed=8).records != complete(records, seed=7).records


def test_a_given_test_split_is_left_alone():
    train, test = make_records({"cat": 20, "dog": 20}, "train"), make_records({"cat": 5, "dog": 7}, "test")
    moved = tuple(record._replace(image=record.image.with_suffix(".png")) for record in test.records)
    drawn = complete(train._replace(records=train.records + moved))
    assert drawn.split("test").records == moved
    assert totals(drawn) == {"train": 34, "val": 6, "test": 12}


def test_a_given_validation_split_is_kept_and_a_missing_test_split_is_said_not_made():
    train, val = make_records({"cat": 20, "dog": 20}, "train"), make_records({"cat": 1, "dog": 1}, "val")
    drawn = complete(train._replace(records=train.records + val.records))
    assert drawn.records == train.records + val.records
    assert drawn.notes == ("no test split given: no test accuracy can be measured",)


def test_without_a_share_there_is_no_test_split():
    assert totals(complete(make_records({"cat": 40, "dog": 60}), test_share=0.0)) == {"train": 85, "val": 15, "test": 0}


def test_small_classes_fill_train_then_val_then_test():
    drawn = complete(make_records({"one": 1, "two": 2, "three": 3, "many": 100}))
    assert drawn.counts()["train"] == {"one": 1, "two": 1, "three": 1, "many": 70}
    assert drawn.counts()["val"] == {"one": 0, "two": 1, "three": 1, "many": 15}
    assert drawn.counts()["test"] == {"one": 0, "two": 0, "three": 1, "many": 15}
    assert "class 'one' has no val images" in drawn.notes
    assert "2 classes ('one', 'two') have no test images" in drawn.notes
    assert any(
        note.startswith("3 classes ('one', 'two', 'three') have one training image only") for note in drawn.notes
    )


def test_a_class_of_a_published_set_may_be_without_images():
    assert "class 'dog' has no train images" in complete(make_records({"cat": 9, "dog": 0}, "train")).notes


@pytest.mark.parametrize(
    ("records", "options", "message"),
    [
        (make_records({"cat": 1, "dog": 1}), {}, "no class has two training images"),
        (make_records({"cat": 9}), {}, "needs at least two"),
        (make_records({"cat": 9, "dog": 9}, "test"), {}, "no training images"),
        (make_records({"cat": 9, "dog": 9}), {"val_share": 0.0}, "val needs a share above 0"),
        (make_records({"cat": 9, "dog": 9}), {"val_share": 0.5, "test_share": 0.5}, "something to train on"),
    ],
)
def test_sets_no_one_can_train_on_are_refused(records, options, message):
    with pytest.raises(DataError, match=message):
        complete(records, **options)


def test_an_unknown_split_is_refused():
    with pytest.raises(DataError, match="'valid' is not a split: choose one of train, val, test"):
        make_records({"cat": 9}).split("valid")


@example(sizes=[3, 3], val=0.45, test=0.45, seed=0)  # 1.35 rounded up in one class would leave test nothing
@given(
    sizes=st.lists(st.integers(1, 80), min_size=1, max_size=12),
    val=st.floats(0.05, 0.45),
    test=st.floats(0.05, 0.45),
    seed=st.integers(0, 2**31),
)
def test_any_draw_is_a_stratified_partition(sizes, val, test, seed):
    records = make_records({str(number): size for number, size in enumerate(sizes)})
    drawn = draw_splits(records, UNSPLIT, {"val": val, "test": test}, seed=seed)
    assert [r._replace(split=UNSPLIT) for r in drawn.records] == list(records.records)
    split_of = Counter((record.label, record.split) for record in drawn.records)
    for number, size in enumerate(sizes):
        label = str(number)
        assert split_of[label, "train"] >= 1
        if size >= 3:
            assert abs(split_of[label, "val"] - val * size) < 1 + (val * size < 1)
            assert split_of[label, "test"] >= 1
    assert {split for _, split in split_of} <= {"train", "val", "test"}


def test_labels_that_are_numbers_are_ordered_as_numbers():
    assert sort_labels({"100", "9", "20"}) == ("9", "20", "100")
    assert sort_labels({"100", "9", "x"}) == ("100", "9", "x")
