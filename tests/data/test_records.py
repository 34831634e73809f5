"""What is in a list of records."""

from pathlib import Path

import pytest

from saccade.data.records import DataError, Record, Records, positive_class
from saccade.tasks.labels import sort_labels


def make_records(**counts: int) -> Records:
    records = [Record(Path(f"{label}{n}.jpg"), label, "train") for label, count in counts.items() for n in range(count)]
    return Records(Path(), tuple(counts), tuple(records))


def test_labels_of_one_value_are_in_the_same_order_whatever_order_a_set_has():
    padded = ["7".zfill(width) for width in range(1, 21)]
    assert sort_labels({"8", "6", *padded}) == ("6", *reversed(padded), "8")


def test_labels_that_are_numbers_are_ordered_as_numbers():
    assert sort_labels({"100", "9", "20"}) == ("9", "20", "100")
    assert sort_labels({"100", "9", "x"}) == ("100", "9", "x")


def test_an_unknown_split_is_refused():
    with pytest.raises(DataError, match="'valid' is not a split: choose one of train, val, test"):
        make_records(cat=9).split("valid")


def test_the_positive_class_is_the_rarer_of_two():
    assert positive_class(make_records(clean=9, defect=2)) == "defect"
    assert positive_class(make_records(broken=2, whole=9)) == "broken"
    assert positive_class(make_records(no=5, yes=5)) == "yes"
    assert positive_class(make_records(a=1, b=2, c=3)) is None
    assert positive_class(make_records(a=1, b=2, c=3), "c") == "c"
    with pytest.raises(DataError, match="positive is 'defct': no such class; there are 'clean', 'defect'"):
        positive_class(make_records(clean=9, defect=2), "defct")
