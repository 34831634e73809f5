"""YAML and JSON files of a run: written whole, and read with an error that names the file and says what to do."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from saccade.files import write_whole


def read_yaml(path: Path, remedy: str) -> dict[str, Any]:
    """The tree in a YAML file."""
    try:
        tree = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not YAML ({' '.join(str(error).split())}); {remedy}") from error
    return _as_tree(path, tree, remedy)


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    """The tree in a JSON file."""
    try:
        tree = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path}: not JSON ({error}); {remedy}") from error
    return _as_tree(path, tree, remedy)


def _as_tree(path: Path, tree: Any, remedy: str) -> dict[str, Any]:
    if not isinstance(tree, dict):
        raise ValueError(f"{path}: holds a {type(tree).__name__}, expected keys and values; {remedy}")
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
