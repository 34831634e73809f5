"""Images that lie in shards: `FOLDER/NAME.tar/IMAGE` is the image of that name in a tar beside its index, NAME.json.

    path ─ index: where in the tar ─▶ those bytes, by ranges ─▶ checked ─▶ a file in the cache, which drops the oldest

So any image can be had without the rest of its shard, and a set larger than the disk is read in any order. FOLDER may
be the stand-in for one behind a URL (`fetch_table`), which then is where tars and indexes are. Elsewhere no path is
ever taken for a URL.
"""

import json
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from filelock import FileLock

from saccade.files import write_whole
from saccade.places.cache import cache_folder, make_room, new_file, place_for
from saccade.places.fetching import Copy, check_fits, fetch, fetch_tree
from saccade.places.remote import RemoteFile, UnreachableError, name_of, parent_of, url_within

SHARD, INDEX = ".tar", ".json"
TABLE = "labels.csv"
_ORIGIN = ".origin"
_REMEDY = "make it again with `saccade data shard`, or copy it again"


class Member(NamedTuple):
    """Where an image lies in a tar, what its bytes add up to, and its height and width, if its header says so."""

    start: int
    bytes: int
    crc32: int
    size: tuple[int, int] | None


def fetch_table(url: str) -> Path:
    """A table behind a URL (of a folder: its `labels.csv`), in a folder here that stands in for the one over there."""
    folder, name = (parent_of(url), name_of(url)) if name_of(url).endswith((".csv", ".tsv")) else (url, TABLE)
    here = fetch_tree(folder, [name])
    write_whole(here / _ORIGIN, folder)
    return here / name


def origin_of(folder: Path) -> str | None:
    """The URL that a folder stands in for."""
    if folder.parent != cache_folder() / "trees":  # a folder of somebody else may hold what it likes
        return None
    told = folder / _ORIGIN
    return told.read_text() if told.is_file() else None


def split_member(path: Path) -> tuple[Path, str] | None:
    """The tar and the name in it, if an image is named as one in a shard."""
    for folder in path.parents:
        if folder.suffix == SHARD and not _is_folder(folder):
            return folder, path.relative_to(folder).as_posix()
    return None


@cache
def _is_folder(path: Path) -> bool:
    return path.is_dir()


def find_member(path: Path) -> Member | None:
    """What is known of an image in a shard; None of an ordinary file."""
    found = split_member(path)
    return _shard(found[0]).member(found[1]) if found else None


def fetch_member(path: Path) -> Copy | None:
    """An image in a shard as a file of its own; None of an ordinary file."""
    found = split_member(path)
    if found is None:
        return None
    tar, name = found
    shard = _shard(tar)
    member = shard.member(name)
    key = sha256(f"{shard.version}\0{name}".encode(errors="surrogateescape")).hexdigest()[:40]
    copy = Copy(place_for(key, Path(name).name), fetch_member, path)
    with FileLock(copy.path.with_name(".lock")):
        if not copy.path.is_file():
            shard.write(member, name, copy.path)
    return copy


def _read_entry(start: int, count: int, checksum: int, size: list[int] | None) -> Member:
    return Member(int(start), int(count), int(checksum), (int(size[0]), int(size[1])) if size else None)


@cache
def _shard(tar: Path) -> "_Shard":
    return _Shard(tar)


class _Shard:
    """A tar and its index, here or behind a URL."""

    def __init__(self, tar: Path):
        url = origin_of(tar.parent)
        self.name = url_within(url, tar.name) if url else str(tar)
        self._tar, self._remote = tar, RemoteFile(self.name) if url else None
        try:
            if self._remote:
                self.version = self._remote.key
                index = fetch(url_within(url or "", tar.with_suffix(INDEX).name)).path.read_text()
            else:
                state = tar.stat()
                self.version = f"{tar} {state.st_size} {state.st_mtime_ns}"
                index = tar.with_suffix(INDEX).read_text()
            self._members = {name: _read_entry(*entry) for name, entry in json.loads(index).items()}
        except FileNotFoundError as error:
            raise UnreachableError(self.name, f"this shard or its index is missing ({error.filename})") from None
        except (ValueError, TypeError, AttributeError):
            raise UnreachableError(self.name, f"the index of this shard is damaged: {_REMEDY}") from None

    def member(self, name: str) -> Member:
        """Where an image of this shard lies."""
        if name not in self._members:
            raise UnreachableError(self.name, f"this shard has no image {name}")
        return self._members[name]

    def write(self, member: Member, name: str, path: Path) -> None:
        """An image as a file."""
        check_fits(self.name, member.bytes)
        make_room(member.bytes)
        data = self._read(member.start, member.start + member.bytes)
        if crc32(data) != member.crc32:
            raise UnreachableError(self.name, f"this shard is damaged where the image {name} lies: {_REMEDY}")
        with new_file(path) as part:
            part.write_bytes(data)

    def _read(self, start: int, end: int) -> bytes:
        if self._remote and self._remote.ranged:
            return self._remote.read(start, end)
        tar = fetch(self._remote) if self._remote else self._tar
        with open(tar, "rb") as file:
            file.seek(start)
            return file.read(end - start)
