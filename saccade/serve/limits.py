"""What a client may ask for, and what is kept of it."""

import asyncio
import time
from collections.abc import Awaitable
from typing import NamedTuple, TypeVar

from fastapi import HTTPException

RETRY_S = 5
UPLOAD_WINDOW_S = 10.0

T = TypeVar("T")


class Limits(NamedTuple):
    """Bounds of one server.

    max_bytes:        of an uploaded file.
    max_pixels:       of an image that is decoded whole.
    max_slide_pixels: of a tiled pyramid, of which only the view and the chosen patches are read.
    timeout_s:        from the beginning of a request to its answer, upload and waiting included.
    min_bytes_s:      an upload that arrives more slowly than this for `UPLOAD_WINDOW_S` is given up.
    queue:            requests that may wait beside the one at work; 503 beyond.
    kept, kept_s:     pictures that can still be zoomed into, and for how long after they were last looked at.
    """

    max_bytes: int = 50_000_000
    max_pixels: int = 100_000_000
    max_slide_pixels: int = 5_000_000_000
    timeout_s: float = 60.0
    min_bytes_s: int = 10_000
    queue: int = 8
    kept: int = 8
    kept_s: float = 600.0


def try_later(why: str) -> HTTPException:
    """503, with the time after which to come again."""
    return HTTPException(503, f"{why}: try again in {RETRY_S} s", {"Retry-After": str(RETRY_S)})


def too_late(deadline: "Deadline") -> HTTPException:
    """504, for work that did not end in time."""
    return HTTPException(504, f"no answer within {deadline.seconds:g} s: send a smaller image")


class Deadline:
    """The moment by which a request must be answered."""

    def __init__(self, seconds: float):
        self.seconds = seconds
        self.end = time.monotonic() + seconds

    async def wait_for(self, work: Awaitable[T]) -> T:
        """The result of `work`, or a TimeoutError when the moment has come."""
        return await asyncio.wait_for(work, max(self.end - time.monotonic(), 0.0))
