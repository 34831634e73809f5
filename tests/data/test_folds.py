"""Folds: those of the table, or drawn by group; each is the test of one run."""

from collections import Counter, defaultdict
from pathlib import Path

import pytest

from saccade.data.folds import fold_names, hold_out, with_folds
from saccade.data.records import DataError, Record, Records

GROUPS = tuple(
    Record(Path(f"{group}-{n}.jpg"), "defect" if n == 0 else "clean", "", group=f"g{group}")
    for group in range(10)
    for n in range(4)
)
RECORDS = Records(Path("data"), ("clean", "defect"), GROUPS)


def test_drawn_folds_keep_groups_and_classes():
    drawn = with_folds(RECORDS, 5, seed=0)
    assert fold_names(drawn) == ("0", "1", "2", "3", "4")
    assert Counter((record.fold, record.label) for record in drawn.records) == {
        (str(fold), label): count for fold in range(5) for label, count in (("clean", 6), ("defect", 2))
    }
    folds = defaultdict(set)
    for record in drawn.records:
        folds[record.group].add(record.fold)
    assert all(len(found) == 1 for found in folds.values())


def test_the_folds_of_the_table_win_and_it_is_said():
    given = RECORDS._replace(records=tuple(r._replace(fold="ab"[n % 2]) for n, r in enumerate(GROUPS)))
    kept = with_folds(given, 5, seed=0)
    assert kept.records == given.records
    assert kept.notes == ("the data set has 2 folds of its own (a, b), which are used instead of 5 drawn ones",)


def test_one_fold_is_for_the_test():
    drawn = with_folds(RECORDS, 5, seed=0)
    held = hold_out(drawn, "3")
    assert {(record.split, record.fold == "3") for record in held.records} == {("test", True), ("train", False)}
    with pytest.raises(DataError, match="no fold '5'; there are 0, 1, 2, 3, 4"):
        hold_out(drawn, "5")


def test_more_folds_than_groups_are_refused():
    with pytest.raises(DataError, match=r"12 folds and 10 groups, which are never parted .* give at most --folds 10"):
        with_folds(RECORDS, 12, seed=0)
    one = RECORDS._replace(records=tuple(record._replace(fold="0") for record in GROUPS))
    with pytest.raises(DataError, match="all images are in the fold '0'"):
        with_folds(one, None, seed=0)
