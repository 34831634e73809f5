"""Options against a signature with every kind of annotation: values that fit it, and values that do not."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from saccade.options import NOT_NEGATIVE, SHARE, check_ranges, describe, fits, make, read_options


class Lens:
    def __init__(
        self,
        channels: int,
        *,
        sigma: float = 0.05,
        k: int,
        mirrored: bool = False,
        name: str | None = None,
        pool: Literal["mean", "max"] = "max",
        size: tuple[int, int] = (1, 2),
        widths: Sequence[int] = (8, 16),
        patch: int | tuple[int, int] = 100,
        shares: dict[str, float] | None = None,
        slots: int = 1,
    ):
        self.given = {key: value for key, value in locals().items() if key not in ("self", "__class__")}


def build(**options: Any) -> dict[str, Any]:
    return make("the lens", Lens, {"k": 3, **options}, 8, slots=4).given


def test_a_part_gets_its_inputs_its_options_and_what_it_asks_for_of_the_context():
    given = make("the lens", Lens, {"k": 3, "sigma": 1}, 8, slots=4, cells=(2, 2)).given
    assert (given["channels"], given["k"], given["sigma"], given["slots"]) == (8, 3, 1, 4)
    assert given["widths"] == (8, 16)


@pytest.mark.parametrize(
    ("option", "fitting", "others", "expected"),
    [
        ("k", [0, 3], [True, 2.5, "3", None, [3]], "a whole number"),
        ("sigma", [0, 0.5], [True, "abc", None, [0.5]], "a number"),
        ("mirrored", [True, False], [0, 1, "true", None], "true or false"),
        ("name", ["a", None], [3, ["a"]], "a word or null"),
        ("pool", ["mean", "max"], ["min", None, 0, ["mean"]], "mean or max"),
        ("size", [(1, 2), [3, 4]], [[1], [1, 2, 3], 5, [1, "2"], [True, 1], "ab"], "a list of 2 whole numbers"),
        ("widths", [[], [8], (8, 16)], [8, [8, 1.5], "8", {"a": 8}], "a list of whole numbers"),
        ("patch", [64, [64, 32]], [[64], "64", None, 6.4], "a whole number or a list of 2 whole numbers"),
        ("shares", [None, {}, {"a": 1}], [{"a": "b"}, [1], 1], "keys with values or null"),
    ],
)
def test_values_are_taken_or_refused_by_their_annotation(option, fitting, others, expected):
    for value in fitting:
        assert build(**{option: value})[option] in (value, tuple(value) if isinstance(value, list) else value)
    for value in others:
        with pytest.raises(ValueError, match=f"^the lens: {option} is .*, expected {expected}$"):
            build(**{option: value})


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "null"), (True, "true"), ("abc", '"abc"'), ([1, None], r"\[1, null\]")]
)
def test_a_refused_value_is_shown_as_it_was_written(value, shown):
    with pytest.raises(ValueError, match=f"k is {shown}, expected"):
        build(k=value)


def test_unknown_and_missing_options_are_named():
    with pytest.raises(ValueError, match=r"^the lens has no option 'sgima': it takes sigma, k, mirrored, name, pool"):
        build(sgima=1)
    with pytest.raises(ValueError, match=r"^the lens has no option 'slots'"):  # the model's own business
        build(slots=3)
    with pytest.raises(ValueError, match=r"^the lens needs the option 'k'$"):
        make("the lens", Lens, {}, 8)
    with pytest.raises(ValueError, match=r"^nothing has no option 'k': it takes none$"):
        make("nothing", lambda: None, {"k": 1})


def test_options_are_read_in_their_order_and_open_ends_are_left_out():
    def part(a: int, *rest: int, b: float = 1.0, **others: int) -> None: ...

    assert [(option.name, option.annotation, option.required) for option in read_options(part)] == [
        ("a", int, True),
        ("b", float, False),
    ]


def test_literals_and_unions_are_told_in_plain_words():
    assert describe(Literal["a", "b", "c"]) == "a, b or c"
    assert describe(int | None) == "a whole number or null"
    assert describe(tuple[str, ...]) == "a list of words"
    assert describe(bool | float | None) == "true or false, a number or null"


def test_lists_become_tuples_where_those_are_asked_for():
    given = build(size=[1, 2], patch=[3, 4], widths=[8, 16])
    assert (given["size"], given["patch"], given["widths"]) == ((1, 2), (3, 4), [8, 16])


def test_anything_fits_any():
    assert all(fits(value, Any) for value in (None, 3, "a", [1], {}))


def test_ranges_name_the_key_the_value_and_what_was_expected():
    @dataclass
    class Rate:
        start: float = 0.0
        focus: float | None = None

        def __post_init__(self):
            check_ranges("training.rate", self, start=SHARE, focus=NOT_NEGATIVE)

    assert Rate(1.0, 0.0) == Rate(start=1.0, focus=0.0)
    assert Rate(0.5).focus is None
    with pytest.raises(ValueError, match=r"^training\.rate\.start is 1\.5: expected a share from 0 to 1$"):
        Rate(1.5)
    with pytest.raises(ValueError, match=r"^training\.rate\.focus is nan: expected 0 or more$"):
        Rate(0.5, float("nan"))
