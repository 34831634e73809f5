"""Lines into a file, whole and at once; and back into the middle of it: after the last whole line."""

import os
from collections.abc import Iterator
from io import BufferedIOBase, BufferedRandom, TextIOWrapper
from pathlib import Path
from typing import NamedTuple

from saccade.predictor.answer import Failure, Prediction
from saccade.predictor.lines import Done, Format

CHUNK = 2**16


class Progress(NamedTuple):
    """Images that a file already has a line for, and how many of these are errors."""

    done: int = 0
    failed: int = 0


class Writer:
    """Answers into a binary stream, each line in one piece and written through."""

    def __init__(self, file: BufferedIOBase, form: Format):
        self.file, self.form = file, form

    def begin(self) -> None:
        """The head, if nothing is there yet."""
        if not self.file.tell():
            self._put(self.form.head)

    def write(self, image: str, answer: Prediction | Failure) -> None:
        """One answer."""
        self._put(self.form.line(image, answer))

    def _put(self, text: str) -> None:
        self.file.write(text.encode("utf-8", errors="surrogateescape"))  # names of files may be no valid UTF-8
        self.file.flush()


def refuse_existing(path: Path) -> None:
    """Raise an error that says what to do if `path` is there."""
    if path.exists():
        raise FileExistsError(
            f"{path} is there already: go on after its last line with --resume, or give another --out"
        )


def go_on(file: BufferedRandom, form: Format, images: Iterator[str], name: Path) -> Progress:
    """Bring `file` to the end of its last whole line and `images` to the first that has no line in it."""
    file.seek(0)
    text = TextIOWrapper(file, encoding="utf-8", errors="surrogateescape", newline="\n")
    lines = (line for line in text if line.endswith("\n"))
    try:
        if form.head and (head := next(lines, form.head)) != form.head:
            raise ValueError(f"{name} has the columns {head.strip()}, expected {form.head.strip()}: give another --out")
        progress = _skip(form, lines, images, name)
    finally:
        text.detach()
    cut_torn_line(file)  # only now: a file that is refused stays as it is
    file.seek(0, os.SEEK_END)
    return progress


def _skip(form: Format, lines: Iterator[str], images: Iterator[str], name: Path) -> Progress:
    progress = Progress()
    for line in _read(form, lines, name):
        image = next(images, None)
        if line.image != image:
            now = "there are only so many images" if image is None else f"image {progress.done + 1} is now {image}"
            raise ValueError(
                f"{name} has an answer for {line.image}, but {now}: give the same images in the same order, or another "
                "--out"
            )
        progress = Progress(progress.done + 1, progress.failed + line.failed)
    return progress


def _read(form: Format, lines: Iterator[str], name: Path) -> Iterator[Done]:
    read = form.read(lines)
    while True:
        try:
            line = next(read, None)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{name} was not written with this model by saccade predict ({error})") from error
        if line is None:
            return
        yield line


def cut_torn_line(file: BufferedRandom) -> None:
    """Drop what comes after the last end of a line: a run that was killed may have left half of one."""
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - CHUNK)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        end = start + found + 1 if found >= 0 else start
        if found >= 0:
            break
    file.truncate(end)
