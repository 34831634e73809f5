"""One process at a time in a run folder: two would write the same checkpoints under each other's hands."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from saccade.files import locked

LOCK = ".lock"
# Processes that read images for one that was killed have its lock, too, and need five seconds to notice.
WAIT_S = 10.0


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Make the folder and hold it, or say that another process does and goes on doing so."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        latest = time.monotonic() + WAIT_S
        while not _take(folder, held):
            if time.monotonic() > latest:
                raise ValueError(
                    f"another process trains in {folder}: wait until it has ended, or give another folder with --out"
                )
            time.sleep(0.2)
        yield


def _take(folder: Path, held: ExitStack) -> bool:
    try:
        held.enter_context(locked(folder / LOCK, wait=False))
    except BlockingIOError:
        return False
    return True
