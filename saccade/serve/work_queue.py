"""One prediction at a time in a thread of its own, a few requests waiting, and no room for more.

A thread cannot be stopped: work has to look at its deadline itself, and what is late is thrown away. Should it be stuck
all the same, its place stays taken, `busy_s` says so, and the thread does not keep the server from ending.
"""

import time
from asyncio import wrap_future
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from saccade.serve.limits import Deadline

T = TypeVar("T")
Work = tuple[Future[Any], Callable[[], Any]]


class BusyError(Exception):
    """All places are taken."""


class WorkQueue:
    """One worker and `queue` places to wait for it. Used from one event loop; only the work itself is elsewhere."""

    def __init__(self, queue: int):
        self.places = queue + 1
        self._taken = 0
        self._given_up: list[Future[Any]] = []
        self._since: float | None = None
        self._work: SimpleQueue[Work | None] = SimpleQueue()
        self._worker = Thread(target=self._run, name="saccade-predict", daemon=True)
        self._worker.start()

    @property
    def taken(self) -> int:
        """Requests that are worked on or wait, and work that nobody waits for any more."""
        self._given_up = [work for work in self._given_up if not work.done()]
        return self._taken + len(self._given_up)

    @property
    def busy_s(self) -> float:
        """For how many seconds the work at hand has been done; 0 if there is none."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since

    def require_room(self) -> None:
        """A BusyError if all places are taken."""
        if self.taken >= self.places:
            raise BusyError

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place until the answer, or a BusyError at once."""
        self.require_room()
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1

    async def work(self, job: Callable[[], T], deadline: Deadline) -> T:
        """What `job` returns, or a TimeoutError; a job that has not begun by then never will."""
        future: Future[T] = Future()
        self._work.put((future, job))
        try:
            return await deadline.wait_for(wrap_future(future))
        except BaseException:
            if not future.done():  # cancelling it failed: it runs
                self._given_up.append(future)
            raise

    def close(self, wait_s: float) -> None:
        """Begin no other work, and let the one at hand end, for so long."""
        with suppress(Empty):
            while work := self._work.get_nowait():
                work[0].cancel()
        self._work.put(None)
        self._worker.join(wait_s)

    def _run(self) -> None:
        while self._do(self._work.get()):
            pass

    def _do(self, work: Work | None) -> bool:
        if work is None:
            return False
        future, job = work
        if future.set_running_or_notify_cancel():
            self._since = time.monotonic()
            try:
                done = job()
            except BaseException as error:
                self._since = None
                future.set_exception(error)
            else:
                self._since = None
                future.set_result(done)
        return True
