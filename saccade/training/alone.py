"""One process at a time in a run folder: two would write the same checkpoints under each other's hands."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from saccade.files import locked

LOCK = ".lock"


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Make the folder and hold it, or say that another process does."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        try:
            held.enter_context(locked(folder / LOCK, wait=False))
        except BlockingIOError:
            raise ValueError(
                f"another process trains in {folder}: wait until it has ended, or give another folder with --out"
            ) from None
        yield
