"""What was fetched, kept on this machine until there is too much of it: the longest unused goes first.

    SACCADE_CACHE      where (default: ~/.cache/saccade)
    SACCADE_CACHE_GB   how much at most (default: 20)

Each file has a folder for itself, and whoever uses or writes it holds a shared lock on that folder, which ends with the
process; what is held stays. How much there is is counted now and then, so each process that fetches may pass the limit
by a twentieth.
"""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import NamedTuple

from saccade.files import naming_what_is_full

DEFAULT_GB = 20.0

_fetched_bytes: dict[Path, int] = {}  # by this process, since it last counted


def cache_folder() -> Path:
    """Where fetched files lie."""
    return Path(os.environ.get("SACCADE_CACHE") or Path.home() / ".cache" / "saccade")


def limit_bytes() -> int:
    """How much may lie there."""
    text = os.environ.get("SACCADE_CACHE_GB") or str(DEFAULT_GB)
    try:
        limit = int(float(text) * 1e9)
    except (ValueError, OverflowError):
        limit = -1
    if limit <= 0:
        raise ValueError(f"SACCADE_CACHE_GB is {text}: expected gigabytes as a number above 0, such as 20")
    return limit


def place_for(key: str, name: str) -> Path:
    """Where the file that `key` names lies, or will lie. It has a folder for itself, and its own name there."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".")[-80:] or "file"
    return cache_folder() / "files" / key[:2] / key / safe


def hold(folder: Path) -> int:
    """A descriptor that keeps a file's folder, which is made, from being dropped until it is closed."""
    import fcntl

    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # dropped in between
            continue
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if folder.exists() and os.path.samestat(os.fstat(descriptor), os.stat(folder)):
            os.utime(folder)
            return descriptor
        os.close(descriptor)


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Where to write what is to be `path`; several processes may do so at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with naming_what_is_full(path):
        with NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
            part = Path(file.name)
        try:
            yield part
            os.replace(part, path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


class _Kept(NamedTuple):
    used: float
    bytes: int
    folder: Path


def make_room(needed: int) -> None:
    """Drop what was not used for longest, if `needed` bytes more are too much."""
    folder, limit = cache_folder(), limit_bytes()
    _fetched_bytes[folder] = _fetched_bytes.get(folder, limit) + needed  # the first time it counts
    if _fetched_bytes[folder] < limit / 20:
        return
    kept = sorted(_kept(folder))
    too_much = sum(each.bytes for each in kept) + needed - limit
    for each in kept:
        if too_much <= 0:
            break
        if _drop(each.folder):
            too_much -= each.bytes
    _fetched_bytes[folder] = 0


def _kept(folder: Path) -> Iterator[_Kept]:
    for each in (folder / "files").glob("*/*"):
        with suppress(FileNotFoundError):  # another process drops it
            yield _Kept(each.stat().st_mtime, sum(os.stat(file).st_blocks * 512 for file in each.iterdir()), each)


def _drop(folder: Path) -> bool:
    import fcntl

    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
