"""Archives (tar, zip) unpacked once, safely: plain files and folders only, and none outside the target.

The target is `<archive>.unpacked`, beside the archive or in a given folder. It appears under that name only when it is
complete: everything is written to a folder of another name first, which is then renamed. So a killed unpacking
is never taken for a finished one; it leaves a folder `.<archive>.…` that may be deleted.

A few kilobytes can unpack to all of a disk, so what comes out is counted as it is written, whatever the archive says of
itself: at most `MAX_BYTES`, and at most `MAX_RATIO` times the archive once that is above `FREE_BYTES`.
"""

import secrets
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from gzip import BadGzipFile
from lzma import LZMAError
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, NamedTuple

from saccade.data.records import DataError

STAMP = ".saccade-archive"
MAX_BYTES = 500 * 10**9
MAX_RATIO = 100  # images hardly shrink; drawings and uncompressed formats do, by twenty or so
FREE_BYTES = 10**9
MEMBER_BYTES = 4096  # what an empty file or folder takes on a disk
CHUNK_BYTES = 1 << 20


class Member(NamedTuple):
    """One entry of an archive; `content` is None for a folder."""

    name: str
    content: IO[bytes] | None


def _tar_members(path: Path) -> Iterator[Member]:
    with tarfile.open(path) as archive:
        for member in archive:
            if not (member.isfile() or member.isdir()):
                raise DataError(
                    f"{path}: {member.name!r} is a link or a device, which is not unpacked; pack it as a file"
                )
            yield Member(member.name, archive.extractfile(member) if member.isfile() else None)


def _zip_members(path: Path) -> Iterator[Member]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if stat.S_ISLNK(member.external_attr >> 16):
                raise DataError(f"{path}: {member.filename!r} is a link, which is not unpacked; pack it as a file")
            if member.flag_bits & 1:
                raise DataError(
                    f"{path}: {member.filename!r} is encrypted; unpack the archive yourself and give the folder"
                )
            yield Member(member.filename, None if member.is_dir() else archive.open(member))


READERS = {
    ".tar": _tar_members,
    ".tar.gz": _tar_members,
    ".tgz": _tar_members,
    ".tar.xz": _tar_members,
    ".txz": _tar_members,
    ".tar.bz2": _tar_members,
    ".zip": _zip_members,
}


def is_archive(path: Path) -> bool:
    """Whether `path` is a file with an archive's suffix."""
    return path.is_file() and path.name.lower().endswith(tuple(READERS))


def unpack(path: Path, into: Path | None = None) -> Path:
    """The folder with what is in archive `path`, unpacked now or by an earlier call."""
    parent = into or path.parent
    target = parent / f"{path.name}.unpacked"
    state = path.stat()
    stamp = f"{state.st_size} {state.st_mtime_ns}"
    if target.is_dir():
        if (target / STAMP).is_file() and (target / STAMP).read_text() == stamp:
            return target
        raise DataError(f"{target} was unpacked from another state of {path.name}; delete that folder to unpack again")
    parent.mkdir(parents=True, exist_ok=True)
    staging = parent / f".{path.name}.{secrets.token_hex(4)}"
    staging.mkdir()
    try:
        _write_members(path, staging)
        (staging / STAMP).write_text(stamp)
        staging.rename(target)
    except OSError:
        if not target.is_dir():  # else another process was faster, and the archive is unpacked
            raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return target


class _Unpacked:
    """The bytes that came out of an archive so far, and their limits."""

    def __init__(self, path: Path):
        self.path, self.packed, self.bytes = path, max(path.stat().st_size, 1), 0

    def add(self, count: int) -> None:
        """Count what is about to be written, and refuse it where it is too much."""
        self.bytes += count
        if self.bytes > MAX_BYTES:
            raise self._refusal(f"more than {MAX_BYTES / 1e9:g} GB")
        if self.bytes > max(FREE_BYTES, MAX_RATIO * self.packed):
            raise self._refusal(f"more than {MAX_RATIO} times its size of {self.packed / 1e6:,.1f} MB")

    def _refusal(self, too_much: str) -> DataError:
        return DataError(
            f"{self.path}: unpacks to {too_much}, which is the limit; nothing was kept. If you trust the archive, "
            "unpack it yourself and give the folder"
        )


def _write_members(path: Path, folder: Path) -> None:
    suffix = next(suffix for suffix in READERS if path.name.lower().endswith(suffix))
    unpacked = _Unpacked(path)
    try:
        for member in READERS[suffix](path):
            name = _safe_name(path, member.name)
            if name.parts[:1] == ("__MACOSX",):  # macOS packs its own notes beside the files
                continue
            target = folder / name
            (target if member.content is None else target.parent).mkdir(parents=True, exist_ok=True)
            unpacked.add(MEMBER_BYTES)
            if member.content is not None:
                _copy(member, target, unpacked)
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        BadGzipFile,
        EOFError,
        LZMAError,
        zlib.error,
        NotImplementedError,
    ) as error:
        raise DataError(f"{path}: damaged or not an archive ({error}); get it again") from error


def _copy(member: Member, target: Path, unpacked: _Unpacked) -> None:
    assert member.content is not None
    with member.content as content, target.open("wb") as file:
        while chunk := content.read(CHUNK_BYTES):
            unpacked.add(len(chunk))
            file.write(chunk)


def _safe_name(path: Path, name: str) -> PurePosixPath:
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    if posix.is_absolute() or windows.anchor or ".." in (*posix.parts, *windows.parts):
        raise DataError(
            f"{path}: {name!r} leads out of the archive; nothing was unpacked, and do not trust this archive"
        )
    return posix
