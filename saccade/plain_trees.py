"""YAML and JSON files: written whole, and read with an error that names the file and says what to do.

A few hundred bytes of YAML can stand for billions of values, each an alias of a list of aliases: what a file stands for
is counted before it is made.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from saccade.files import told, write_whole
from saccade.options import describe, fits

MAX_BYTES, MAX_VALUES = 2**20, 10_000  # of a YAML file; a recipe has a few hundred values


def read_yaml(path: Path, remedy: str) -> dict[str, Any]:
    """The tree in a YAML file."""
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path}: larger than {MAX_BYTES:,} bytes, so it is no recipe; {remedy}")
    try:
        text = path.read_text(encoding="utf-8")
        if _count(yaml.compose(text, yaml.SafeLoader), {}) > MAX_VALUES:
            raise ValueError(f"its aliases stand for more than {MAX_VALUES:,} values")
        tree = yaml.safe_load(text)
    except Exception as error:  # of PyYAML also TypeError, RecursionError, …
        raise ValueError(f"{path}: not YAML that can be read ({told(error)}); {remedy}") from error
    return _as_tree(path, tree, remedy)


def _count(node: Any, known: dict[int, float]) -> float:
    """How many values a node of YAML stands for; no end of them if it is within itself."""
    if id(node) not in known:
        known[id(node)] = math.inf
        inner = node.value if isinstance(node, yaml.CollectionNode) else ()
        children = [child for each in inner for child in (each if isinstance(each, tuple) else (each,))]
        known[id(node)] = 1 + sum(_count(child, known) for child in children)
    return known[id(node)]


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    """The tree in a JSON file."""
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON ({told(error)}); {remedy}") from error
    return _as_tree(path, tree, remedy)


def check_types(path: Path, tree: Mapping[str, Any], types: Mapping[str, Any], remedy: str) -> None:
    """Refuse values that are not of the types they are used as; keys that are not there are fine."""
    for name, annotation in types.items():
        if name in tree and not fits(tree[name], annotation):
            raise ValueError(f"{path}: {name} is {str(tree[name])[:80]}, expected {describe(annotation)}; {remedy}")


def _as_tree(path: Path, tree: Any, remedy: str) -> dict[str, Any]:
    if not isinstance(tree, dict):
        what = "nothing" if tree is None else "a list" if isinstance(tree, list) else f"just {str(tree)[:40]!r}"
        raise ValueError(f"{path}: holds {what}, expected keys and values; {remedy}")
    if strange := [key for key in tree if not isinstance(key, str)]:
        raise ValueError(f"{path}: no key {strange[0]}: expected keys that are words; {remedy}")
    return tree


def write_json(path: Path, tree: dict[str, Any]) -> None:
    """Write a tree."""
    write_whole(path, json.dumps(tree, indent=1))


def differences(there: Any, here: Any, key: str = "") -> Sequence[str]:
    """In which keys two recipes differ, as trees, and how.

    >>> differences({"steps": 5, "data": {"path": "a"}}, {"steps": 6, "data": {"path": "a"}})
    ['steps 5 there, 6 here']
    """
    if isinstance(there, dict) and isinstance(here, dict):
        pairs = [(f"{key}.{name}".lstrip("."), there.get(name), here.get(name)) for name in {**there, **here}]
        return [line for name, old, new in pairs for line in differences(old, new, name)]
    return [] if there == here else [f"{key} {there} there, {here} here"]
