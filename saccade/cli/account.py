"""How far a prediction is and what went wrong, on standard error: standard output is for lines alone."""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from saccade.files import shown

PLAIN_LINES = 10


class Account:
    """Counts images and tells of them: `done` and `failed` of `total`, those of earlier runs included."""

    def __init__(self, out: Path | None, total: int, done: int, failed: int):
        from rich.console import Console

        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self.out, self.total, self.done, self.failed = out, total, done, failed
        self.first_failure, self.undrawn = "", 0
        self.begin, self.done_before = time.monotonic(), done

    def follow(self, outcomes: Iterable[Any]) -> Iterator[Any]:
        """The same outcomes, with a bar on a terminal and now and then a plain line elsewhere."""
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        columns = ("predicting", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        # Lines that go to the same terminal show by themselves how far it is.
        disabled = not self.console.is_terminal or (not self.out and sys.stdout.isatty())
        bar = Progress(*columns, console=self.console, transient=True, redirect_stdout=False, disable=disabled)
        row = bar.add_task("", total=self.total, completed=self.done)
        with bar:
            for outcome in outcomes:
                yield outcome  # it is done when the next one is asked for
                self.done += 1
                bar.update(row, completed=self.done)
                self._print_now_and_then()

    def _print_now_and_then(self) -> None:
        if self.console.is_terminal:
            return
        if self.done * PLAIN_LINES // self.total > (self.done - 1) * PLAIN_LINES // self.total:
            self.console.print(f"predicted {self.done} of {self.total} images")

    def resume(self, done: int, failed: int) -> None:
        """Count what an earlier run did."""
        self.done, self.done_before, self.failed = self.done + done, self.done_before + done, self.failed + failed

    def fail(self, what: str) -> None:
        """Count an image that could not be predicted."""
        self.failed += 1
        self.first_failure = self.first_failure or what

    @contextmanager
    def drawing(self, image: str) -> Iterator[None]:
        """Tell and count a picture that cannot be drawn: no line does, for the prediction is there all the same."""
        from saccade.predict.stream import explain

        try:
            yield
        except (OSError, ValueError, RuntimeError) as error:
            self.undrawn += 1
            self.say(f"{image}: predicted, but not drawn: {explain(error).error}")

    def finish(self) -> int:
        """Say how it went, and the exit code of that."""
        seconds, count = time.monotonic() - self.begin, self.done - self.done_before
        where = f" → {self.out}" if self.out else ""
        self.say(f"{count} images in {seconds:.1f} s ({count / seconds:.1f} per second){where}")
        if self.failed:
            text = f"{self.failed} of {self.total} images failed"
            self.say(f"{text}, first {self.first_failure}" if self.first_failure else text)
        if self.undrawn:
            self.say(f"{self.undrawn} of {count} images could not be drawn")
        return 1 if self.failed or self.undrawn else 0

    def say(self, text: str) -> None:
        """One line for people."""
        self.console.print(shown(text), markup=False)
