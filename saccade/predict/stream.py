"""Paths → images → predictions, in order and in bounded memory: files are read ahead, images of one size go together.

    paths ─ readers ─▶ waiting: a few images, oldest first ─ groups of one size ─▶ model ─▶ predictions, oldest first

A group is answered when it is full, when it holds many pixels, or when its oldest image has waited long enough.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from torch import Tensor

from saccade.files import shown
from saccade.images import BadImage, Guard
from saccade.images.guarded import SUPPORTED
from saccade.places import UnreachableError
from saccade.predict.outcomes import Failure, Prediction
from saccade.predict.reading import Reader, ReadImage

AHEAD = 4  # images for each worker that are read before they are asked for
LOOK_AHEAD = 4  # batches that may wait for others of their size
GROUP_PX = 2**24  # a group of this many pixels is full: 0.2 GB as floats
WAITING_PX = 2**27  # 0.4 GB as bytes
PATIENCE_S = 1.0


class Loaded(NamedTuple):
    """A path and what reading it gave."""

    path: str | Path
    image: ReadImage | Failure


def read_ahead(reader: Reader, paths: Iterable[str | Path], *, workers: int) -> Iterator[Loaded]:
    """The images of `paths` in order, each read before it is asked for, several at once.

    Threads wait for guards, which decode; elsewhere decoders let go of the interpreter's lock. So pixels come in
    shared memory and are never copied.
    """
    if not workers:
        yield from map(partial(_load, reader), paths)
        return
    first = reader.guard or Guard()
    pool = ThreadPoolExecutor(workers, "reader")
    with ExitStack() as stack:
        stack.callback(pool.shutdown)
        free: SimpleQueue[Reader] = SimpleQueue()
        for guard in (first, *(Guard(first.limits) for _ in range(workers - 1))):
            free.put(reader._replace(guard=stack.enter_context(guard).start()) if SUPPORTED else reader)
        # Whoever stops early waits for no file: what has not begun is dropped, then guards end what has.
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)

        def load(path: str | Path) -> Loaded:
            mine = free.get()
            try:
                return _load(mine, path)
            finally:
                free.put(mine)

        coming = iter(paths)
        waiting = deque(pool.submit(load, path) for path in islice(coming, workers * AHEAD))
        while waiting:
            yield waiting.popleft().result()
            waiting.extend(pool.submit(load, path) for path in islice(coming, 1))


def _load(reader: Reader, path: str | Path) -> Loaded:
    try:
        return Loaded(path, reader(path))
    except Exception as error:  # whatever it is, it is this file's line and not the end of the batch
        return Loaded(path, explain(error))


def explain(error: Exception) -> Failure:
    """The error in one line that no terminal obeys; that of a file without its name."""
    text = error.reason if isinstance(error, BadImage | UnreachableError) else str(error) or type(error).__name__
    return Failure(shown(" ".join(text.split())))


def answer_in_order(
    answer: Callable[[Sequence[ReadImage]], list[Prediction]], loaded: Iterable[Loaded], *, batch: int
) -> Iterator[tuple[str | Path, Prediction | Failure]]:
    """Each path with what came of it, in the order they came; `answer` gets images of one size, at most `batch`."""
    queue = _Queue(answer, batch)
    for item in loaded:
        queue.add(item)
        yield from queue.ready()
        while queue.is_late():
            queue.answer_oldest()
            yield from queue.ready()
    while queue.waiting:
        queue.answer_oldest()
        yield from queue.ready()


@dataclass
class _Waiting:
    """A file whose outcome is not known yet, when there is still an image, or whose turn has not come."""

    path: str | Path
    image: ReadImage | None
    outcome: Prediction | Failure | None
    since: float

    @property
    def pixels(self) -> int:
        """How many are held in memory; none of an image that is read by parts."""
        pixels = self.image and self.image.pixels
        return pixels.shape[-2:].numel() if isinstance(pixels, Tensor) else 0


class _Queue:
    def __init__(self, answer: Callable[[Sequence[ReadImage]], list[Prediction]], batch: int):
        self.answer, self.batch = answer, batch
        self.waiting: deque[_Waiting] = deque()

    def add(self, loaded: Loaded) -> None:
        """Let an image wait; answer its group if that is full now."""
        if isinstance(loaded.image, Failure):
            self.waiting.append(_Waiting(loaded.path, None, loaded.image, time.monotonic()))
            return
        item = _Waiting(loaded.path, loaded.image, None, time.monotonic())
        self.waiting.append(item)
        group = self._group(item)
        if len(group) >= self.batch or sum(i.pixels for i in group) >= GROUP_PX or not item.pixels:
            self._answer(group)

    def ready(self) -> Iterator[tuple[str | Path, Prediction | Failure]]:
        """What is known of those whose turn it is."""
        while self.waiting and (outcome := self.waiting[0].outcome):
            yield self.waiting.popleft().path, outcome

    def is_late(self) -> bool:
        """Whether the oldest image cannot wait any longer for others of its size."""
        crowded = len(self.waiting) >= LOOK_AHEAD * self.batch or sum(i.pixels for i in self.waiting) > WAITING_PX
        return bool(self.waiting) and (crowded or time.monotonic() - self.waiting[0].since > PATIENCE_S)

    def answer_oldest(self) -> None:
        """Answer the first image that waits, and all of its size."""
        self._answer(self._group(self.waiting[0]))

    def _group(self, item: _Waiting) -> list[_Waiting]:
        """The unanswered images that can be answered together with `item`; read by parts, it is alone."""
        if item.image is None or not item.pixels:
            return [item]
        return [i for i in self.waiting if i.image and i.pixels and i.image.shown == item.image.shown]

    def _answer(self, group: list[_Waiting]) -> None:
        try:
            outcomes: Sequence[Prediction | Failure] = self.answer([item.image for item in group if item.image])
        except (ValueError, OSError, RuntimeError, MemoryError) as error:  # torch: RuntimeError for lack of memory
            if len(group) > 1:  # what is too much together may be possible one by one
                for item in group:
                    self._answer([item])
                return
            outcomes = [explain(error)]
        for item, outcome in zip(group, outcomes, strict=True):
            item.outcome, item.image = outcome, None
