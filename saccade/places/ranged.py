"""A file behind a URL, of which only what is read is fetched: a sparse file here, filled block by block.

    what is read ─▶ blocks that are not there yet ─ requests for ranges ─▶ the sparse file ─▶ bytes

The reader sees `Ranged`, a local file and a way to have it filled; so the one who decodes may be a process that never
speaks to the network itself (`images.guarded`).
"""

import io
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from saccade.places.cache import hold, make_room, place_for
from saccade.places.remote import RemoteFile, name_of

BLOCK_BYTES = 2**16


class Ranged(os.PathLike):
    """A file here whose bytes `start` to `end` are there once `fill(start, end)` has returned."""

    def __init__(self, path: Path, size: int, fill: Callable[[int, int], None]):
        self.path, self.size, self.fill = path, size, fill

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def suffix(self) -> str:
        """As a path has it."""
        return self.path.suffix

    def open(self, mode: str = "rb") -> io.BufferedReader:
        """The file, filled as it is read."""
        assert mode == "rb"
        return io.BufferedReader(_Raw(self), BLOCK_BYTES)


class _Raw(io.RawIOBase):
    def __init__(self, file: Ranged):
        self._ranged, self._place = file, 0
        self._file = file.path.open("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._ranged.size}[whence]
        if base + offset < 0:
            raise ValueError(f"a place before the beginning: {base + offset}")
        self._place = base + offset
        return self._place

    def readinto(self, buffer) -> int:
        end = min(self._place + len(buffer), self._ranged.size)
        if end <= self._place:
            return 0
        self._ranged.fill(self._place, end)
        self._file.seek(self._place)
        count = self._file.readinto(memoryview(buffer)[: end - self._place]) or 0
        self._place += count
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


class RangedFile(Ranged):
    """A file behind a URL, filled in this process; it travels as the URL."""

    def __init__(self, remote: RemoteFile):
        assert remote.size is not None
        self.remote = remote
        super().__init__(place_for(remote.key, f"parts-{name_of(remote.url)}"), remote.size, self._fill)
        self._there = self.path.with_name("there")  # a byte for each block
        self._descriptor = hold(self.path.parent)
        self._make()

    def __reduce__(self):
        return RangedFile, (self.remote,)

    def __del__(self):
        with suppress(AttributeError, OSError):
            os.close(self._descriptor)

    def _make(self) -> None:
        for path, size in ((self._there, -(-self.size // BLOCK_BYTES)), (self.path, self.size)):
            with path.open("ab") as file:  # one that is there stays as it is
                file.truncate(size)

    def _fill(self, start: int, end: int) -> None:
        first, last = start // BLOCK_BYTES, -(-end // BLOCK_BYTES)
        with self._there.open("r+b", buffering=0) as there, self.path.open("r+b", buffering=0) as file:
            there.seek(first)
            known = there.read(last - first)
            for begin, stop in _runs([first + i for i, block in enumerate(known) if not block]):
                make_room((stop - begin) * BLOCK_BYTES)
                data = self.remote.read(begin * BLOCK_BYTES, min(stop * BLOCK_BYTES, self.size))
                file.seek(begin * BLOCK_BYTES)
                file.write(data)
                there.seek(begin)
                there.write(b"\1" * (stop - begin))


def _runs(blocks: list[int]) -> list[tuple[int, int]]:
    """Numbers that follow each other, as (first, behind the last).

    >>> _runs([1, 2, 3, 7])
    [(1, 4), (7, 8)]
    """
    runs: list[tuple[int, int]] = []
    for block in blocks:
        if runs and runs[-1][1] == block:
            runs[-1] = runs[-1][0], block + 1
        else:
            runs.append((block, block + 1))
    return runs
