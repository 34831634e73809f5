"""A data set → shards: tars of images in the order of a draw, an index beside each, and the table of labels over all.

    OUT/labels.csv          image,label,split,…   train-00000.tar/cats/1.jpg,cat,train
    OUT/train-00000.tar     the images' files, as they are; WebDataset's readers know what to do with them, too
    OUT/train-00000.json    {"cats/1.jpg": [first byte, bytes, CRC-32, [height, width]], …}

Lines are in the order of the data set's images, so training on shards is training on the set itself, to the last bit.
The table comes last: without it the set is not finished, and the same command goes on behind the last whole shard.
"""

import csv
import io
import json
import os
import re
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np

from saccade.data.records import SPLITS, DataError, Record, Records
from saccade.files import naming_what_is_full, whole_file, write_whole
from saccade.images.header_sizes import upright_size
from saccade.places.members import INDEX, SHARD, TABLE, split_member
from saccade.tasks.labels import split_answers

UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
Entry = tuple[int, int, int, tuple[int, int] | None]


class Planned(NamedTuple):
    """A shard to be: its name and its images, each with its place in the data set."""

    name: str
    images: tuple[tuple[int, Record], ...]


def read_size(text: str) -> int:
    """Bytes from words.

    >>> read_size("256MB"), read_size("1.5 GB")
    (256000000, 1500000000)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?) *([kMG]?)B", text.strip())
    if found is None or (size := int(float(found[1]) * UNITS[found[2]])) < 1:
        raise ValueError(f"--size is {text}: expected bytes, such as 256MB or 1GB")
    return size


def plan_shards(records: Records, size: int, *, seed: int = 0) -> list[Planned]:
    """Which images lie in which shard: drawn from all of one split, about `size` bytes together."""
    if any(split_member(record.image) for record in records.records):
        raise DataError(f"{records.root} is in shards already: copy it as it is, or give what it was made of")
    planned = []
    for split in SPLITS:
        images = [(place, record) for place, record in enumerate(records.records) if record.split == split]
        drawn = np.random.default_rng([seed, SPLITS.index(split)]).permutation(len(images))
        for number, some in enumerate(_fill([images[place] for place in drawn], size)):
            planned.append(Planned(f"{split}-{number:05d}", tuple(some)))
    return planned


def _fill(images: Sequence[tuple[int, Record]], size: int) -> Iterator[list[tuple[int, Record]]]:
    some, filled = [], 0
    for place, record in images:
        some.append((place, record))
        filled += record.image.stat().st_size
        if filled >= size:
            yield some
            some, filled = [], 0
    if some:
        yield some


def write_shards(records: Records, out: Path, planned: Sequence[Planned]) -> Iterator[Planned]:
    """Write what is not there yet; each shard is yielded when it is there, and with the last one the table is, too."""
    if (out / TABLE).exists():
        raise DataError(f"{out} holds a data set already ({TABLE}): give another folder")
    out.mkdir(parents=True, exist_ok=True)
    names = dict[int, str]()
    for shard in planned:
        expected = {_name_in_shard(records.root, record): record.image.stat().st_size for _, record in shard.images}
        tar, index = out / f"{shard.name}{SHARD}", out / f"{shard.name}{INDEX}"
        if not (tar.is_file() and _indexed(index) == expected):
            with whole_file(tar) as part:
                entries = _write_tar(part, records.root, shard)
            write_whole(index, json.dumps(entries))
        for (place, _), name in zip(shard.images, expected, strict=True):
            names[place] = f"{tar.name}/{name}"
        if shard is planned[-1]:
            with naming_what_is_full(out):
                write_whole(out / TABLE, _table(records, names))
        yield shard


def _name_in_shard(root: Path, record: Record) -> str:
    name = Path(os.path.relpath(record.image, root)).as_posix()
    if name.startswith("../"):
        raise DataError(f"{record.image} does not lie in {root}: put it there")
    return name


def _indexed(index: Path) -> dict[str, int]:
    return {name: entry[1] for name, entry in json.loads(index.read_text()).items()} if index.is_file() else {}


def _write_tar(path: Path, root: Path, shard: Planned) -> dict[str, Entry]:
    entries = {}
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for _, record in shard.images:
            name, data = _name_in_shard(root, record), record.image.read_bytes()
            about = tarfile.TarInfo(name)  # neither owner nor times: the same images are the same shard
            about.size, about.mode = len(data), 0o644
            tar.addfile(about, io.BytesIO(data))
            start = tar.offset - -(-len(data) // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
            entries[name] = (start, len(data), crc32(data), upright_size(record.image))
    return entries


def _table(records: Records, names: dict[int, str]) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    questions = [f"label:{question.name}" for question in records.questions] or ["label"]
    columns = [name for name in ("group", "fold") if any(getattr(record, name) for record in records.records)]
    table.writerow(["image", *questions, "split", "boxes", *columns])
    for place, record in enumerate(records.records):
        answers = split_answers(record.label, len(questions)) if records.questions else [record.label]
        kept = [getattr(record, name) for name in columns]
        table.writerow([names[place], *answers, record.split, _boxes(record), *kept])
    return text.getvalue()


def _boxes(record: Record) -> str:
    kinds = record.kinds or ("",) * len(record.boxes)
    return ";".join(" ".join([*map(str, box), kind]).rstrip() for box, kind in zip(record.boxes, kinds, strict=True))
