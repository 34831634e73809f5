"""Wrong recipes, model folders and run folders out of sound ones, each a function of its seed."""

import copy
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from tests.hostile.mutations import mutate

ODD = (
    *(None, True, False, -1, 0, 1, 3, 2.5, 1e308, -1e-30, 10**30, math.nan, math.inf),
    *("", "abc", "[a]", "\x1b[2J", "[/b]", "null", "a" * 300, "../..", "\ud800", "2001-01-01"),
    *([], ["a"], [1, 2], [[1]], [None], {}, {"a": 1}, {"name": None}, {"name": ["a"]}, {"name": "abc"}),
)


def odd_tree(tree: dict[str, Any], seed: int) -> dict[str, Any]:
    """A tree with one to three values that somebody got wrong, left out, left empty or misspelled."""
    rng, tree = np.random.default_rng(seed), copy.deepcopy(tree)
    for _ in range(int(rng.integers(1, 4))):
        place = tree
        while inner := [value for value in place.values() if isinstance(value, dict) and value]:
            if rng.random() < 0.3:
                break
            place = inner[int(rng.integers(len(inner)))]
        if place:
            _wound(place, str(rng.choice([str(key) for key in place])), rng)
    return tree


def _wound(place: dict[str, Any], key: str, rng: np.random.Generator) -> None:
    kind = rng.random()
    if kind < 0.7:
        place[key] = copy.deepcopy(ODD[int(rng.integers(len(ODD)))])  # which the next wound may change
    elif kind < 0.8:
        place.pop(key, None)
    elif kind < 0.9:
        place[f"{key}x"] = place.pop(key, None)
    else:
        place[key] = {key: place.get(key)}


def odd_yaml(sound: bytes, seed: int) -> bytes:
    """A wrong recipe: its values in two of three, its bytes otherwise."""
    if seed % 3 == 0:
        return mutate(sound, seed)
    return yaml.dump(odd_tree(yaml.safe_load(sound), seed), allow_unicode=seed % 2 == 0).encode(errors="replace")


def odd_json(sound: bytes, seed: int) -> bytes:
    """The same of JSON."""
    return mutate(sound, seed) if seed % 3 == 0 else json.dumps(odd_tree(json.loads(sound), seed)).encode()


def odd_file(path: Path, seed: int) -> None:
    """Damage any file of a run folder as its kind asks for."""
    odd = {".yaml": odd_yaml, ".json": odd_json}.get(path.suffix, mutate)
    path.write_bytes(odd(path.read_bytes(), seed))


def flip(data: bytes, seed: int) -> bytes:
    """One bit, or 4 KB of zeros, anywhere."""
    rng, wounded = np.random.default_rng(seed), bytearray(data)
    place = int(rng.integers(len(data)))
    if seed % 2:
        wounded[place : place + 4096] = bytes(len(wounded[place : place + 4096]))
    if wounded == data:
        wounded[place] ^= 1 << int(rng.integers(8))
    return bytes(wounded)
