"""One process at a time in a run folder: two would write the same checkpoints under each other's hands."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold the folder, or say that another process does. A process that dies, however it dies, lets go of it."""
    try:
        import fcntl
    except ImportError:  # Windows has no such locks
        yield
        return
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"another process trains in {folder}: wait until it has ended, or give another folder with --out"
            ) from None
        yield
