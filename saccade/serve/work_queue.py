"""One prediction at a time in a thread of its own, a few requests waiting, and no room for more.

A thread cannot be stopped. Work that is given up while it runs ends as it would, its result is thrown away, and its
place stays taken until then: the bound holds for what the machine does, not only for what somebody waits for.
"""

from asyncio import wrap_future
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from saccade.serve.limits import Deadline

T = TypeVar("T")


class BusyError(Exception):
    """All places are taken."""


class WorkQueue:
    """One worker and `queue` places to wait for it. Used from one event loop; only the work itself is elsewhere."""

    def __init__(self, queue: int):
        self.places = queue + 1
        self._taken = 0
        self._given_up: list[Future[Any]] = []
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="saccade-predict")

    @property
    def taken(self) -> int:
        """Requests that are worked on or wait, and work that nobody waits for any more."""
        self._given_up = [work for work in self._given_up if not work.done()]
        return self._taken + len(self._given_up)

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place from the upload to the answer, or a BusyError at once."""
        if self.taken >= self.places:
            raise BusyError
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1

    async def work(self, job: Callable[[], T], deadline: Deadline) -> T:
        """What `job` returns, or a TimeoutError; a job that has not begun by then never will."""
        future = self._worker.submit(job)
        try:
            return await deadline.wait_for(wrap_future(future))
        except BaseException:
            if not future.done():  # cancelling it failed: it runs
                self._given_up.append(future)
            raise

    def close(self) -> None:
        """Let the work at hand end, and begin no other."""
        self._worker.shutdown(wait=True, cancel_futures=True)
