"""All of a file behind a URL, or of several, as files of this machine."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from saccade.places.cache import cache_folder, hold, limit_bytes, make_room, new_file, place_for
from saccade.places.remote import PIECE_BYTES, RemoteFile, UnreachableError, insist, name_of, url_within


class Copy(os.PathLike):
    """A file here that stays as long as this is there; it travels as the place it is from, and may be fetched again.

    again: what fetches it from `place`.
    """

    def __init__(self, path: Path, again: Callable[[Any], Any], place: object):
        self.path, self._again = path, (again, (place,))
        self._descriptor = hold(path.parent)

    def __fspath__(self) -> str:
        return str(self.path)

    def __reduce__(self):
        return self._again

    def __del__(self):
        with suppress(AttributeError, OSError):
            os.close(self._descriptor)


def fetch(place: str | RemoteFile) -> Copy:
    """The file behind a URL, from the cache if it has this version."""
    remote = RemoteFile(place) if isinstance(place, str) else place
    copy = Copy(place_for(remote.key, name_of(remote.url)), fetch, remote.url)
    if not copy.path.is_file():
        _write(remote, copy.path)
    return copy


def check_fits(name: str, size: int) -> None:
    """Refuse what is larger than the cache."""
    if size > (limit := limit_bytes()):
        raise UnreachableError(name, f"{size:,} bytes, and the cache holds {limit:,} at most: raise SACCADE_CACHE_GB")


def _write(remote: RemoteFile, path: Path) -> None:
    limit = limit_bytes()
    check_fits(remote.url, remote.size or 0)
    make_room(remote.size or 0)
    with new_file(path) as part:
        if remote.ranged:
            with part.open("wb") as file:
                for start in range(0, remote.size or 0, PIECE_BYTES):
                    file.write(remote.read(start, min(start + PIECE_BYTES, remote.size or 0)))
        else:
            insist(remote.url, lambda: _write_stream(remote, part, limit))


def _write_stream(remote: RemoteFile, part: Path, limit: int) -> None:
    size = 0
    with part.open("wb") as file:
        for piece in remote.stream():
            size += len(piece)
            if size > limit:
                raise UnreachableError(
                    remote.url, f"more than the {limit:,} bytes that the cache holds: raise SACCADE_CACHE_GB"
                )
            file.write(piece)
    if remote.size is not None and size != remote.size:
        raise OSError(f"{size} bytes came, expected {remote.size}")


def fetch_tree(url: str, names: Sequence[str], advance: Callable[[], object] = lambda: None) -> Path:
    """The files `names` of the folder behind a URL, under the same names in a folder here, which stays.

    It is outside of what is dropped: whoever reads it does not know that it was fetched.
    """
    folder = cache_folder() / "trees" / sha256(url.rstrip("/").encode()).hexdigest()[:40]
    for name in names:
        remote = RemoteFile(url_within(url, name))
        path, version = folder / name, folder / ".versions" / f"{name}.key"
        if not (path.is_file() and version.is_file() and version.read_text() == remote.key):
            _write(remote, path)
            with new_file(version) as part:
                part.write_text(remote.key)
        advance()
    return folder
