"""Images that belong together, and how a list of images is dealt into parts without ever parting them.

A group is what the user says belongs together: the images of a patient, of a part, of a scene. A test on the other
images of a patient who was trained on measures memory, so no group is ever split. Groups that hold the same picture are
dealt as one: the picture would be on both sides.

`deal` is the one way to draw anything by group: a validation split, a test split, n folds. Groups are placed one after
the other, those with the largest share of any class first, each where the counts come closest to what the parts should
have; then each is placed anew, with all others in place, until none moves:

    minimize  Σ_parts Σ_classes (n_pc / n_c − share_p)²  +  Σ_parts (n_p / n − share_p)²

A part that would lack a class altogether costs more than any unevenness, and most if it is the first, which is trained
on.
"""

import hashlib
import re
import stat
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from saccade.data.records import DataError, Record, Records
from saccade.places import find_member

SWEEPS = 5
END_BYTES = 2**16


class SamePicture(NamedTuple):
    """Images of several groups whose files are the same, byte for byte."""

    records: tuple[Record, ...]

    @property
    def groups(self) -> tuple[str, ...]:
        """Their groups, by name."""
        return tuple(sorted({record.group for record in self.records}))


def deal(
    records: Sequence[Record], shares: Sequence[float], *, names: Sequence[Sequence[str]] | None = None, seed: int
) -> list[int]:
    """The part of each record, a place in `shares`, which add up to 1: by group, stratified by class, by seed.

    names: by what each record is dealt alike, any number of names (default: its label).

    A record without a group is a group of its own. The draw depends on the seed and on the names of images and groups,
    not on their order.

    >>> cats = [Record(Path(f"{n}.jpg"), "cat", "", group=f"patient {n // 2}") for n in range(8)]
    >>> deal(cats, [0.5, 0.5], seed=0)
    [1, 1, 0, 0, 0, 0, 1, 1]
    """
    order = sorted(range(len(records)), key=lambda place: records[place].image)
    units = _units([records[place] for place in order])
    named = [(record.label,) for record in records] if names is None else names
    number = {name: number for number, name in enumerate(sorted({name for each in named for name in each}))}
    counts = np.zeros((max(units) + 1, len(number) + 1))  # unit class, and all images beside each class
    for unit, place in zip(units, order, strict=True):
        counts[unit, [number[name] for name in named[place]]] += 1
        counts[unit, -1] += 1
    parts = _place(counts, np.asarray(shares, float), np.random.default_rng(seed))
    part_of = dict(zip(order, parts[units].tolist(), strict=True))
    return [part_of[place] for place in range(len(records))]


def count_units(records: Sequence[Record]) -> int:
    """Into how many pieces the records can be dealt at most."""
    return max(_units(records), default=-1) + 1


def have_groups(records: Iterable[Record]) -> bool:
    """Whether somebody said which images belong together."""
    return any(record.group for record in records)


def group_by_name(records: Records, pattern: str) -> Records:
    """The records with the groups that a regular expression finds in their paths inside of the data folder.

    The group is what its first bracket matches, or all that it matches where it has none.
    """
    try:
        find = re.compile(pattern)
    except re.error as error:
        raise DataError(
            f"data.group is {pattern!r}, which is no regular expression ({error}): expected one such as 'patient[0-9]+'"
        ) from None
    grouped, seen = [], {}
    for record in records.records:
        name = record.image.relative_to(records.root).as_posix()
        match = find.search(name)
        if match is None or not match[(group := min(1, find.groups))]:
            raise DataError(f"{name}: data.group {pattern!r} finds no group in this name; it must find one in each")
        try:
            refuse_alike(match[group], f"in {name}", seen)
        except DataError as error:
            raise DataError(f"{name}: {error}") from None
        grouped.append(record._replace(group=match[group]))
    return records._replace(records=tuple(grouped))


def refuse_alike(name: str, where: str, seen: dict[str, tuple[str, str]]) -> None:
    """Two names of groups that differ by spaces alone are most likely one, misspelt; `seen` is filled."""
    first, there = seen.setdefault("".join(name.split()), (name, where))
    if first != name:
        raise DataError(
            f"group {name!r} differs by spaces alone from {first!r} {there}; write both alike, or tell them apart by "
            "more"
        )


def same_pictures(records: Sequence[Record]) -> list[SamePicture]:
    """Every picture that lies in several groups."""
    same = [SamePicture(tuple(records[place] for place in places)) for places in same_files(records)]
    return [picture for picture in same if len(picture.groups) > 1]


def _units(records: Sequence[Record]) -> list[int]:
    """Which piece each record is in: those of a group are, and groups with a picture in common."""
    places: dict[Hashable, list[int]] = defaultdict(list)
    for place, record in enumerate(records):
        places[record.group or (place,)].append(place)
    bonds = [*places.values(), *same_files(records)]
    ends = [(bond[0], place) for bond in bonds for place in bond]
    one, other = zip(*ends, strict=True) if ends else ((), ())
    graph = coo_array((np.ones(len(ends)), (one, other)), shape=(len(records),) * 2)
    return connected_components(graph, directed=False)[1].tolist()


def _place(
    counts: Float[np.ndarray, "units classes"], shares: Float[np.ndarray, " parts"], rng: np.random.Generator
) -> Int[np.ndarray, " units"]:
    mass = counts / counts.sum(axis=0)
    there = np.zeros((len(shares), counts.shape[1]))  # how much of each class a part has
    # What it costs a part to lack a class: more than any unevenness, and in the first part more than in all others.
    lack = 4.0 * np.arange(len(shares), 0, -1)[:, None]
    lack[0] *= counts.shape[1] * len(shares)
    shuffled = rng.permutation(len(counts))
    largest_first = shuffled[np.argsort(-mass[shuffled].max(axis=1), kind="stable")]
    parts = np.zeros(len(counts), dtype=int)
    for unit in largest_first:
        parts[unit] = _added_cost(mass[unit], there, shares).argmin()
        there[parts[unit]] += mass[unit]
    for _ in range(SWEEPS):
        before = parts.copy()
        for unit in largest_first[::-1]:  # the smallest is the first to fill a gap
            there[parts[unit]] -= mass[unit]
            gain = ((there < 1e-9) & (mass[unit] > 0)) * lack
            cost = _added_cost(mass[unit], there, shares) - gain.sum(axis=1)
            if cost.min() < cost[parts[unit]] - 1e-9:  # the same is no reason to move
                parts[unit] = cost.argmin()
            there[parts[unit]] += mass[unit]
        if (parts == before).all():
            break
    return parts


def _added_cost(
    mass: Float[np.ndarray, " classes"], there: Float[np.ndarray, "parts classes"], shares: Float[np.ndarray, " parts"]
) -> Float[np.ndarray, " parts"]:
    """By how much the sum of squares grows where a unit is added."""
    return (mass * (mass + 2 * (there - shares[:, None]))).sum(axis=1)


def same_files(records: Sequence[Record]) -> list[list[int]]:
    """Places of records whose files have the same bytes; each file is read no further than others are like it."""
    classes = [list(range(len(records)))]
    for key in (_size, _ends, _digest):
        classes = [like for places in classes for like in _alike(places, records, key)]
    return classes


def _alike(places: list[int], records: Sequence[Record], key: Callable[[Path], Hashable]) -> list[list[int]]:
    found: dict[Hashable, list[int]] = defaultdict(list)
    for place in places:
        try:
            found[key(records[place].image)].append(place)
        except OSError:  # told where it is read as an image
            continue
    return [like for like in found.values() if len(like) > 1]


def _size(path: Path) -> int:
    if member := find_member(path):
        return member.bytes
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError(f"{path} is no ordinary file")  # reading a pipe would wait for ever
    return found.st_size


def _ends(path: Path) -> bytes:
    """A digest of the file's beginning and end; of one in a shard what its bytes add up to, which is known."""
    if member := find_member(path):
        return str(member.crc32).encode()
    with path.open("rb") as file:
        start = file.read(END_BYTES)
        file.seek(max(0, _size(path) - END_BYTES))
        return hashlib.blake2b(start + file.read(END_BYTES)).digest()


def _digest(path: Path) -> bytes:
    if find_member(path):
        return b""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").digest()
