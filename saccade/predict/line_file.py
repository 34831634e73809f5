"""Lines into a file, each whole and at once; and how to resume one after its last whole line."""

import csv
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase, BufferedRandom, TextIOWrapper
from pathlib import Path
from typing import NamedTuple

from filelock import lock_descriptor

from saccade.files import FULL
from saccade.predict.line_formats import Done, Format
from saccade.predict.outcomes import Failure, Prediction

CHUNK = 2**16
WAIT_S = 10.0


class Progress(NamedTuple):
    """Images that a file already has a line for, and how many of these are errors."""

    done: int = 0
    failed: int = 0


class Writer:
    """Predictions into a binary stream, each line in one piece and written through."""

    def __init__(self, file: BufferedIOBase, form: Format):
        self.file, self.form = file, form

    def begin(self) -> None:
        """The head, if nothing is there yet."""
        if not self.file.tell():
            self.put(self.form.head)

    def write(self, image: str, outcome: Prediction | Failure) -> None:
        """What came of one image."""
        self.put(self.form.line(image, outcome))

    def put(self, text: str) -> None:
        """Whole lines."""
        self.file.write(text.encode("utf-8", errors="surrogateescape"))  # names of files may be no valid UTF-8
        self.file.flush()


@contextmanager
def open_alone(path: Path, *, resumes: bool) -> Iterator[BufferedRandom]:
    """The file to continue, made if it is not there, for this process alone: lines of two would be mixed.

    A process that is killed lets go of it as soon as those that read images for it have noticed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("a+b") as file:
            deadline = time.monotonic() + WAIT_S
            while not lock_descriptor(file.fileno(), blocking=False):
                if time.monotonic() > deadline:
                    raise ValueError(
                        f"another process writes {path}: wait until it has ended, or give another file with --out"
                    )
                time.sleep(0.1)
            if not resumes and file.seek(0, os.SEEK_END):  # it was not there a moment ago
                refuse_existing(path)
            yield file
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise OSError(f"{path} is not complete ({error.strerror}): make room, and continue with --resume") from error


def refuse_existing(path: Path) -> None:
    """Raise an error that says what to do if `path` is there."""
    if path.exists():
        raise FileExistsError(f"{path} exists: continue after its last line with --resume, or give another --out")


def resume(file: BufferedRandom, form: Format, images: Iterator[str], name: Path) -> Progress:
    """Bring `file` to the end of its last whole line and `images` to the first that has no line in it."""
    file.seek(0)
    text = TextIOWrapper(file, encoding="utf-8", errors="surrogateescape", newline="\n")
    lines = _Counted(form.whole(text))
    try:
        if form.head and (head := next(lines, None)) != form.head:
            _check_torn_head(file, form, head, name)
        progress = _skip(form, lines, images, name)
    finally:
        text.detach()
    file.truncate(lines.end)  # only now: a file that is refused stays as it is
    file.seek(0, os.SEEK_END)
    return progress


class _Counted:
    """The same lines, and the byte where the last of them ended."""

    def __init__(self, lines: Iterator[str]):
        self.lines, self.end = lines, 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self.lines)
        self.end += len(line.encode("utf-8", errors="surrogateescape"))
        return line


def _check_torn_head(file: BufferedRandom, form: Format, head: str | None, name: Path) -> None:
    """Raise an error unless `file` is empty or has only the beginning of the columns, which a kill may leave."""
    if head is None:
        file.seek(0)
        head = file.read(CHUNK).decode("utf-8", errors="surrogateescape")
        if form.head.startswith(head):
            return
        head = head.partition("\n")[0]
    raise ValueError(f"{name} has the columns {head.strip()}, expected {form.head.strip()}: give another --out")


def _skip(form: Format, lines: Iterator[str], images: Iterator[str], name: Path) -> Progress:
    progress = Progress()
    for line in read_done(form, lines, name):
        image = next(images, None)
        if line.image != image:
            now = "there are only so many images" if image is None else f"image {progress.done + 1} is now {image}"
            raise ValueError(
                f"{name} has a line for {line.image}, but {now}: give the same images in the same order, or another "
                "--out"
            )
        progress = Progress(progress.done + 1, progress.failed + line.failed)
    return progress


def read_done(form: Format, lines: Iterator[str], name: Path) -> Iterator[Done]:
    """What was done by the lines of the file `name`; one that this model did not give is an error."""
    read = form.read(lines)
    while True:
        try:
            line = next(read, None)
        except (ValueError, KeyError, TypeError, csv.Error) as error:
            raise ValueError(f"{name} was not written with this model by saccade predict ({error})") from error
        if line is None:
            return
        yield line
