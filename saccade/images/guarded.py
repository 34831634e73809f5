"""Reading where it can be killed: a process of its own, with limits on its memory and time, decodes for this one.

A decoder is C code that reads bytes of strangers. Here it may hang, fill its memory or crash, and all of that is one
`BadImage`: the process is ended and the next file gets a new one. It does not import torch, so it starts in a fraction
of a second, and it hands over pixels in shared memory.

Requests and answers are JSON, and pixels are bytes of a known shape: nothing that comes from there is ever executed.
Linux only (`SUPPORTED`); elsewhere files are read in the process itself.
"""

import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from saccade.images.bad_image import BadImage, Fault, require_file
from saccade.images.decoding_cost import MAX_PIXELS, allowed_bytes
from saccade.images.pyramid import Box, NotASlideError
from saccade.images.shared_memory import LentBlocks
from saccade.places import Ranged, UnreachableError

SUPPORTED = sys.platform == "linux"
START_S = 60  # a busy machine may take its time to start a process
MESSAGE_BYTES = 2**16
FILL = b"fill "  # and where from and to: the only question of the process that reads
GIVE_UP_S = 10.0  # for it to learn that there is no more
# What the readers need beside pixels: a few threads and their stacks, the file, a row of tiles.
ROOM_BYTES = 2**28


class Limits(NamedTuple):
    """What one request may take: seconds on the clock and of the processor, and bytes of memory.

    By default the memory is what `decoding_cost` allows for as many pixels as are asked for.
    """

    wall_s: float = 60.0
    cpu_s: float = 60.0
    memory_bytes: int | None = None

    def for_pixels(self, max_pixels: int) -> "Limits":
        """With the memory as a number."""
        if self.memory_bytes is not None:
            return self
        return self._replace(memory_bytes=allowed_bytes(max_pixels) + ROOM_BYTES)


class Guard:
    """A process that reads images for this one, one request at a time; threads that share it take turns.

    It starts at the first request, again after it was ended, and anew in a forked process. It travels as its limits:
    those that arrive in a process with the same limits are one.

    >>> with Guard(Limits(wall_s=10)) as guard:  # doctest: +SKIP
    ...     pixels = guard.read_pixels(Path("upload.jpg"), max_pixels=100_000_000)
    """

    def __init__(self, limits: Limits | None = None):
        self.limits = limits or Limits()
        self._turn = threading.Lock()
        self._worker: _Worker | None = None
        self._until = threading.local()

    def __reduce__(self):
        return _arrived, (self.limits,)

    def __enter__(self) -> "Guard":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @contextmanager
    def until(self, moment: float) -> Iterator[None]:
        """All that this thread asks for in the block, be it a thousand boxes, is read by `moment` (monotonic) or not.

        What is late is a `BadImage`; waiting for other threads counts.
        """
        self._until.moment = moment
        try:
            yield
        finally:
            del self._until.moment

    def start(self) -> "Guard":
        """Begin the process now and do not wait for it: it is there sooner when something is asked."""
        with self._turn:
            self._there()
        return self

    def _there(self) -> "_Worker":
        if self._worker is None or self._worker.owner != os.getpid():
            self._worker = _Worker()
        return self._worker

    def close(self) -> None:
        """End the process now, also from another thread: whoever waits for an answer gets a `BadImage`."""
        worker, self._worker = self._worker, None
        if worker and worker.owner == os.getpid():
            worker.end()

    def read_pixels(self, path: Path, *, max_pixels: int = MAX_PIXELS) -> np.ndarray:
        """`decode.read_pixels`."""
        return self._ask(path, "read_pixels", max_pixels=max_pixels)

    def header_size(self, path: Path) -> tuple[int, int] | None:
        """`formats.header_size`."""
        size = self._ask(path, "header_size")
        return None if size is None else (size[0], size[1])

    def open_pyramid(self, path: Path | Ranged, *, single_file: bool = False) -> "GuardedPyramid":
        """`pyramid.open_pyramid`; the file is open over there, and opened again if that process had to be ended."""
        found = self._ask(path, "open_pyramid", single_file=single_file, size=_ranged_size(path))
        sizes = tuple((height, width) for height, width in found["sizes"])
        mpp = found["mpp"] and (found["mpp"][0], found["mpp"][1])
        return GuardedPyramid(self, path, single_file, sizes, tuple(found["tile_rows"]), mpp)

    def read_box(self, path: Path | Ranged, level: int, box: Box, *, single_file: bool) -> np.ndarray:
        """The bytes of a box of a pyramid."""
        return self._ask(path, "read_box", level=level, box=box, single_file=single_file, size=_ranged_size(path))

    def _ask(self, path: Path | Ranged, job: str, **options: Any) -> Any:
        require_file(path)
        limits = self.limits.for_pixels(options.get("max_pixels", MAX_PIXELS))
        end = getattr(self._until, "moment", math.inf)
        left_s = min(end - time.monotonic(), threading.TIMEOUT_MAX)
        if left_s <= 0 or not self._turn.acquire(timeout=left_s):
            raise BadImage(path, "there was no time left to read it", Fault.SLOW)
        try:
            limits = limits._replace(wall_s=min(limits.wall_s, max(end - time.monotonic(), 0.001)))
            request = {"job": job, "path": os.path.abspath(path), "options": options, "limits": limits}
            worker = self._there()
            worker.wait_for_start(min(START_S, left_s))
            return worker.answer(path, request, limits)
        except _EndedError as ended:
            self._worker = None
            raise BadImage(path, ended.reason, ended.fault) from None
        except RuntimeError:
            self._worker = None
            raise
        finally:
            self._turn.release()


def _ranged_size(path: Path | Ranged) -> int | None:
    return path.size if isinstance(path, Ranged) else None


@lru_cache
def _arrived(limits: Limits) -> Guard:
    # A guard for each image that comes from a loader's process would be a process for each image.
    return Guard(limits)


class GuardedPyramid(NamedTuple):
    """A `Pyramid` that is open in the process of a guard."""

    guard: Guard
    path: Path | Ranged
    single_file: bool
    sizes: tuple[tuple[int, int], ...]
    tile_rows: tuple[int, ...]
    mpp: tuple[float, float] | None

    def read(self, level: int, box: Box) -> np.ndarray:
        """The bytes of a box, H W 3."""
        return self.guard.read_box(self.path, level, box, single_file=self.single_file)


class _EndedError(Exception):
    """The process is no more: why, in words, and whose fault that is."""

    def __init__(self, reason: str, fault: Fault):
        super().__init__(reason)
        self.reason, self.fault = reason, fault


class _Worker:
    """The process and the socket to it."""

    def __init__(self):
        self.owner, self._started = os.getpid(), False
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            # -P: a folder of images is no place to import from. Its library's complaints would quote files.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "saccade.images.guarded_worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "MALLOC_ARENA_MAX": "2"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                process_group=0,  # Ctrl-C is for the one who asked
            )
        self._blocks = LentBlocks()

    def wait_for_start(self, start_s: float) -> None:
        """Until it can be asked; the first time that takes a while."""
        if self._started:
            return
        try:
            self._socket.settimeout(start_s)
            message, _ = self._receive()
        except TimeoutError:
            self.end()
            raise _EndedError("its reader did not start in time", Fault.SLOW) from None
        except OSError:  # `close` was called meanwhile
            message = b""
        self._started = message == b"ready"
        if not self._started:
            self._failed_to_start()

    def _failed_to_start(self) -> NoReturn:
        code = self._wait()
        if code == -signal.SIGKILL:
            raise _EndedError(*_explain_end(code, Limits()))
        raise RuntimeError(
            f"the process that reads images did not start: `{sys.executable} -m saccade.images.guarded_worker 0` "
            "shows why"
        )

    def end(self) -> int:
        """Kill it, and say how it ended: the signal as a negative number."""
        self._process.kill()
        code = self._process.wait()
        self._socket.close()
        return code

    def answer(self, path: Path | Ranged, request: dict[str, Any], limits: Limits) -> Any:
        self._socket.settimeout(limits.wall_s)
        try:
            self._socket.send(json.dumps({**request, "memory": self._blocks.sort_out()}).encode())
            message, descriptors = self._receive()
            end = time.monotonic() + limits.wall_s
            while isinstance(path, Ranged) and message.startswith(FILL):
                message, descriptors = self._fill(path, message, end)
        except TimeoutError:
            self.end()
            raise _EndedError(f"reading it took longer than {limits.wall_s:g} s and was stopped", Fault.SLOW) from None
        except UnreachableError:
            raise
        except OSError:  # it is gone, or `close` was called meanwhile
            message, descriptors = b"", []
        if not message:
            raise _EndedError(*_explain_end(self._wait(), limits))
        return self._unpack(path, json.loads(message), descriptors)

    def _fill(self, file: Ranged, message: bytes, end: float) -> tuple[bytes, list[int]]:
        """Have a part of the one file that is being read fetched here, and go on."""
        try:
            file.fill(*map(int, message.removeprefix(FILL).split()))
        except UnreachableError:
            self._socket.send(b"failed")
            self._socket.settimeout(GIVE_UP_S)
            self._receive()  # what it made of that
            raise
        self._socket.settimeout(max(end - time.monotonic(), 0.001))
        self._socket.send(b"filled")
        return self._receive()

    def _unpack(self, path: Path | Ranged, answer: dict[str, Any], descriptors: list[int]) -> Any:
        if "not_a_slide" in answer:
            raise NotASlideError(answer["not_a_slide"])
        if "bad" in answer:
            raise BadImage(path, answer["bad"]["reason"], Fault(answer["bad"]["fault"]))
        if "pixels" not in answer:
            return answer["value"]
        return self._blocks.array(answer["pixels"], descriptors)

    def _wait(self) -> int:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1)
        return self._process.returncode or self.end()

    def _receive(self) -> tuple[bytes, list[int]]:
        message, descriptors, _, _ = socket.recv_fds(self._socket, MESSAGE_BYTES, 1)
        return message, descriptors


def _explain_end(code: int, limits: Limits) -> tuple[str, Fault]:
    if code in (-signal.SIGXCPU, -signal.SIGALRM):
        return f"reading it took longer than {limits.cpu_s:g} s and was stopped", Fault.SLOW
    name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return f"damaged: its reader ended ({name}) while reading it", Fault.DAMAGED
