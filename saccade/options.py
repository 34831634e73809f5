"""Options of a part: the keyword arguments of its constructor, checked by their annotations where the part is built.

They come from YAML, JSON or flags, so values are numbers, words, true, false, null, lists and mappings. A refusal says
what came, what was expected and what there is. This module imports no torch.
"""

import inspect
import json
import math
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from saccade.files import told


class Option(NamedTuple):
    """One option: what values it takes, and the one it has if none is given (`inspect.Parameter.empty`: none)."""

    name: str
    annotation: Any
    default: Any

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is inspect.Parameter.empty


def read_options(part: Any) -> list[Option]:
    """The parameters of a class or function, in their order.

    >>> def cut(image, *, patch: int = 100): ...
    >>> [(option.name, option.default) for option in read_options(cut) if not option.required]
    [('patch', 100)]
    """
    hints = get_type_hints(part.__init__ if isinstance(part, type) else part)
    parameters = inspect.signature(part).parameters.values()
    named = (each for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD))
    return [Option(each.name, hints.get(each.name, Any), each.default) for each in named]


def make(what: str, part: Any, options: Mapping[str, Any], *inputs: Any, **context: Any) -> Any:
    """`part(*inputs, …)` with `options`, each checked, and with what it asks for of the `context`.

    A list becomes a tuple where one is asked for: YAML and JSON have none.

    >>> make("the head", lambda width, bias=True: (width, bias), {"bais": False}, 8)
    Traceback (most recent call last):
    ValueError: the head has no option 'bais': it takes bias
    """
    taken = read_options(part)[len(inputs) :]
    check_options(what, [option for option in taken if option.name not in context], options)
    given = {option.name: context[option.name] for option in taken if option.name in context}
    given |= {option.name: _as_asked(options[option.name], option) for option in taken if option.name in options}
    if missing := [option.name for option in taken if option.required and option.name not in given]:
        raise ValueError(f"{what} needs the option {', '.join(map(repr, missing))}")
    try:
        return part(*inputs, **given)
    except (ValueError, OSError):
        raise
    except Exception as error:  # a width of -1, or of a billion, is first noticed deep within torch
        raise ValueError(f"{what} cannot be made with {_shown(options)} ({told(error)})") from error


def check_options(what: str, known: Iterable[Option], options: Mapping[str, Any]) -> None:
    """Refuse options that are not `known`, and values that do not fit them."""
    annotations = {option.name: option.annotation for option in known}
    if unknown := [name for name in options if name not in annotations]:
        raise ValueError(
            f"{what} has no option {', '.join(map(repr, unknown))}: it takes {', '.join(annotations) or 'none'}"
        )
    for name, value in options.items():
        if not fits(value, annotations[name]):
            raise ValueError(f"{what}: {name} is {_shown(value)}, expected {describe(annotations[name])}")


def fits(value: Any, annotation: Any) -> bool:
    """Whether `value` is of the type `annotation`; a whole number is a number, and true is none.

    >>> fits(3, float), fits(True, int), fits([1, 2], tuple[int, int]), fits("abc", float | None)
    (True, False, True, False)
    """
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(fits(value, each) for each in inner)
    if origin is Literal:
        return value in inner
    if annotation in (int, float):
        return isinstance(value, (int, annotation)) and not isinstance(value, bool)
    if origin is tuple and inner[-1] is not Ellipsis:
        return _is_list(value) and len(value) == len(inner) and all(map(fits, value, inner))
    if origin in (list, tuple, Sequence):
        return _is_list(value) and all(fits(each, inner[0]) for each in value)
    if origin in (dict, Mapping):
        return isinstance(value, Mapping) and all(fits(each, inner[1]) for each in value.values())
    return isinstance(value, annotation)


def describe(annotation: Any) -> str:
    """What values an annotation admits, in words.

    >>> describe(float | None), describe(Literal["mean", "max"]), describe(tuple[int, int])
    ('a number or null', 'mean or max', 'a list of 2 whole numbers')
    >>> describe(Sequence[int | Sequence[int]])
    'a list, each a whole number or a list of whole numbers'
    """
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return _either(map(describe, inner))
    if origin is Literal:
        return _either(map(str, inner))
    if origin is tuple and inner[-1] is not Ellipsis:
        return f"a list of {len(inner)} {_MANY.get(inner[0], KEYS)}"
    if origin in (list, tuple, Sequence):
        either = get_origin(inner[0]) in (Union, types.UnionType)
        return f"a list, each {describe(inner[0])}" if either else f"a list of {_MANY.get(inner[0], KEYS)}"
    if origin in (dict, Mapping):
        return KEYS
    return _ONE.get(annotation, KEYS)


KEYS = "keys with values"
_ONE: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a word",
    types.NoneType: "null",
    Any: "any value",
}
_MANY = {int: "whole numbers", float: "numbers", str: "words"}


class Range(NamedTuple):
    """Which values of the right type are fine, and how to say so."""

    expected: str
    holds: Callable[[Any], bool]


AT_LEAST_ONE = Range("at least 1", lambda value: value >= 1)
POSITIVE = Range("a number above 0", lambda value: 0 < value < math.inf)
NOT_NEGATIVE = Range("0 or more", lambda value: 0 <= value < math.inf)
SHARE = Range("a share from 0 to 1", lambda value: 0 <= value <= 1)


def check_ranges(key: str, options: Any, **ranges: Range) -> None:
    """Refuse values of a dataclass, called `key` in a recipe, that lie out of their range; null is in any."""
    for name, expected in ranges.items():
        value = getattr(options, name)
        if value is not None and not expected.holds(value):
            shown = list(value) if isinstance(value, tuple) else value
            raise ValueError(f"{f'{key}.{name}'.removeprefix('.')} is {shown}: expected {expected.expected}")


def _shown(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)


def _either(words: Iterable[str]) -> str:
    *others, last = dict.fromkeys(words)
    return f"{', '.join(others)} or {last}" if others else last


def _as_asked(value: Any, option: Option) -> Any:
    asked = {get_origin(each) for each in (option.annotation, *get_args(option.annotation))}
    return tuple(value) if isinstance(value, list) and tuple in asked else value


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
