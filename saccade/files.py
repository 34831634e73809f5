"""Files that appear whole or not at all: written beside their place, as NAME.part, and then moved there.

A killed process leaves at most the part behind, which no reader takes for the file; the next writer writes over it. Two
writers of one file would move each other's parts: where that may happen, they take turns with `filelock.FileLock`.
"""

import errno
import os
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
MAX_TOLD = 500  # letters of an error that is told within another one


@contextmanager
def whole_file(path: Path | str) -> Iterator[Path]:
    """Where to write what is to be `path`: moved there if the block ends well, deleted if not."""
    part = Path(f"{path}.part")
    try:
        with naming_what_is_full(path):
            yield part
            os.replace(part, path)
    except BaseException:  # Ctrl-C too
        part.unlink(missing_ok=True)
        raise


@contextmanager
def naming_what_is_full(path: Path | str) -> Iterator[None]:
    """The system says that a disk is full, but not what was to be written: that was `path`, or something in it."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise no_room(path, error.strerror) from error
        raise


def no_room(path: Path | str, reason: object) -> OSError:
    """That the disk is full, for people."""
    return OSError(
        f"{shown(path)} cannot be written ({reason}): what was there is as it was; make room and give the same command "
        "again"
    )


def write_whole(path: Path, content: str | bytes) -> Path:
    """Write a file, text as UTF-8 with its line ends as they are, and return its path."""
    with whole_file(path) as part:
        # A file name need not be UTF-8, and Python holds its other bytes as surrogates: they are written as they were.
        part.write_bytes(content.encode(errors="surrogateescape") if isinstance(content, str) else content)
    return path


def shown(text: object) -> str:
    """A path, or a text with one in it, as it may be printed: on one line, with nothing a terminal would obey.

    >>> print(shown("evil\\x1b[2J\\nname.jpg"))
    evil\\x1b[2J\\nname.jpg
    """
    return "".join(
        letter if letter.isprintable() or unicodedata.category(letter) == "Zs" else _escape(letter)
        for letter in str(text)
    )


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape").decode()


def told(error: Exception) -> str:
    """An error in one line; of one that says too little by itself also its kind.

    >>> told(KeyError("step")), told(ValueError("two\\nlines"))
    ("KeyError: 'step'", 'two lines')
    """
    text = " ".join(shown(" ".join(str(error).split())).split())[:MAX_TOLD]
    return text if text and isinstance(error, (ValueError, OSError)) else f"{type(error).__name__}: {text}".rstrip(": ")
