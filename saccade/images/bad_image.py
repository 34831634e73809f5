"""A file that cannot be used, and the one place where whatever a reader raises becomes that.

Decoders meet damaged files with almost any exception (RuntimeError, NotImplementedError, MemoryError, struct.error,
RecursionError, …). `blaming(path)` turns each of them into the `BadImage` of that file, so that one file is one line of
a batch and never its end.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from PIL import UnidentifiedImageError

from saccade.files import shown
from saccade.places import Ranged, UnreachableError

MAX_REASON = 500  # characters: a reader's message may quote the file


class Fault(StrEnum):
    """What is wrong with a file, for those who answer with a number instead of a sentence."""

    MISSING = "missing"
    UNKNOWN = "unknown"  # not an image, or of a kind that is not read
    DAMAGED = "damaged"
    LARGE = "large"
    SLOW = "slow"
    UNREACHABLE = "unreachable"  # behind a URL
    MEMORY = "memory"  # not there, although the limits would have allowed it


class BadImage(ValueError):  # noqa: N818 (it says what it is without a suffix)
    """An image file that cannot be used: `path`, the `reason` in words and the `fault` in one."""

    def __init__(self, path: "Path | Ranged | str", reason: str | None = None, fault: Fault = Fault.DAMAGED):
        if reason is None:
            # A DataLoader worker hands its error on as one text, a traceback that ends in our own message.
            last_line = str(path).strip().splitlines()[-1]
            path, _, reason = last_line.removeprefix(f"{__name__}.BadImage: ").partition(": ")
        super().__init__(str(path), reason, fault)
        self.path = Path(path)
        self.reason = shown(reason)
        self.fault = fault

    def __str__(self) -> str:
        return f"{shown(self.path)}: {self.reason}"


@contextmanager
def blaming(path: Path) -> Iterator[None]:
    """Whatever is raised in the block, but for Ctrl-C and the like, is the fault of the file at `path`."""
    try:
        yield
    except BadImage:
        raise
    except Exception as error:
        raise BadImage(path, *_explain(path, error)) from error


def require_file(path: Path | Ranged) -> None:
    """Refuse what is no ordinary file by asking the file system alone: to open a pipe is to wait for ever."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise BadImage(path, "no such file", Fault.MISSING) from None
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise BadImage(path, str(getattr(error, "strerror", None) or error), Fault.MISSING) from None
    if stat.S_ISDIR(mode):
        raise BadImage(path, "a folder, expected an image file", Fault.UNKNOWN)
    if not stat.S_ISREG(mode):
        raise BadImage(path, "a pipe, socket or device, expected an image file: it is not opened", Fault.UNKNOWN)


def _explain(path: Path, error: Exception) -> tuple[str, Fault]:
    if isinstance(error, UnreachableError):
        return error.reason, Fault.UNREACHABLE
    if not path.exists():
        return "no such file", Fault.MISSING
    if path.is_file() and path.stat().st_size == 0:
        return "the file is empty (0 bytes)", Fault.DAMAGED
    if isinstance(error, UnidentifiedImageError):
        return "not an image, or of a kind that is not read", Fault.UNKNOWN
    if isinstance(error, MemoryError):
        return "there is not enough memory to read it", Fault.MEMORY
    if isinstance(error, OSError) and error.strerror:
        return error.strerror, Fault.DAMAGED
    told = f"{type(error).__name__}: {error}" if isinstance(error, KeyError | IndexError) else str(error)
    return f"damaged or truncated ({(told or type(error).__name__)[:MAX_REASON]})", Fault.DAMAGED
