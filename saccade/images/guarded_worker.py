"""The other side of `guarded`: reads images within limits, request by request, until the socket is closed."""

import json
import math
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import AvifImagePlugin, Image

from saccade.images.bad_image import BadImage, blaming
from saccade.images.decode import read_pixels
from saccade.images.guarded import FILL, MESSAGE_BYTES, Limits
from saccade.images.image_formats import header_size
from saccade.images.pyramid import Box, NotASlideError, open_pyramid
from saccade.images.shared_memory import Shared
from saccade.places import Ranged

GRACE_S = 5  # after which it ends itself, if the one who asked is no more


# Of the few slides people look at in turn; a file that changed in between is another one.
@lru_cache(maxsize=2)
def _pyramid(path: Path, single_file: bool, size: int | None, changed_ns: int):
    return open_pyramid(path if size is None else Ranged(path, size, _fill), single_file=single_file)


def _fill(start: int, end: int) -> None:
    """Ask the other side for a part of a file that is behind a URL: nothing is fetched from here."""
    with socket.socket(fileno=os.dup(int(sys.argv[1]))) as asker:
        asker.send(FILL + f"{start} {end}".encode())
        if asker.recv(MESSAGE_BYTES) != b"filled":
            raise OSError("the rest of the file could not be fetched")


def _open(path: Path, single_file: bool, size: int | None):
    # A file that is filled as it is read changes all the time; its name has its version in it.
    return _pyramid(path, single_file, size, path.stat().st_mtime_ns if size is None else 0)


def _describe_pyramid(path: Path, shared: Shared, single_file: bool, size: int | None) -> dict[str, Any]:
    found = _open(path, single_file, size)
    return {"sizes": found.sizes, "tile_rows": found.tile_rows, "mpp": found.mpp}


def _read_box(
    path: Path, shared: Shared, level: int, box: list[int], single_file: bool, size: int | None
) -> np.ndarray:
    return _open(path, single_file, size).read(level, Box(*box))


def _read_pixels(path: Path, shared: Shared, max_pixels: int) -> np.ndarray:
    _pyramid.cache_clear()  # whose tiles would take from the memory that this picture may have
    return read_pixels(path, max_pixels=max_pixels, allocate=shared.allocate)


JOBS: dict[str, Callable[..., Any]] = {
    "read_pixels": _read_pixels,
    "header_size": lambda path, shared: header_size(path),
    "open_pyramid": _describe_pyramid,
    "read_box": _read_box,
}


def do(request: dict[str, Any], shared: Shared) -> dict[str, Any] | np.ndarray:
    """What a request asks for, or what is wrong with its file."""
    path = Path(request["path"])
    try:
        with blaming(path):
            try:
                found = JOBS[request["job"]](path, shared, **request["options"])
            except NotASlideError as error:
                return {"not_a_slide": str(error)[: MESSAGE_BYTES // 8]}
        return found if isinstance(found, np.ndarray) else {"value": found}
    except BadImage as error:
        return {"bad": {"reason": error.reason[: MESSAGE_BYTES // 8], "fault": error.fault}}


def limit(limits: Limits, base_bytes: int) -> None:
    """From now on: so much memory above what the process began with, so much time."""
    assert limits.memory_bytes is not None
    usage = resource.getrusage(resource.RUSAGE_SELF)
    used_s = usage.ru_utime + usage.ru_stime
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used_s + limits.cpu_s), resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_AS, (base_bytes + limits.memory_bytes, resource.RLIM_INFINITY))
    signal.setitimer(signal.ITIMER_REAL, limits.wall_s + GRACE_S)


def main() -> None:
    """Answer requests on the socket whose number is the first argument."""
    AvifImagePlugin.DEFAULT_MAX_THREADS = 2  # one per core would take their stacks out of the memory's limit
    Image.init()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    shared = Shared()
    base_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    with socket.socket(fileno=int(sys.argv[1])) as asker:
        asker.send(b"ready")
        while message := asker.recv(MESSAGE_BYTES):
            request = json.loads(message)
            shared.sort_out(**request["memory"])
            limit(Limits(*request["limits"]), base_bytes)
            answer = do(request, shared)
            signal.setitimer(signal.ITIMER_REAL, 0)
            if isinstance(answer, np.ndarray):
                block, descriptor = shared.hand_over(answer)
                about = {"shape": answer.shape, "dtype": answer.dtype.name, "block": block.number, "bytes": block.size}
                del answer
                socket.send_fds(asker, [json.dumps({"pixels": about}).encode()], descriptor)
            else:
                asker.send(json.dumps(answer).encode())


if __name__ == "__main__":
    main()
