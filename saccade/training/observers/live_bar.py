"""A bar at the bottom of the terminal that leaves the terminal usable: print, logging and warnings go above it."""

import logging
import sys
from collections.abc import Iterator
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text


class _BarAndFacts(Progress):
    """The facts have a line of their own, for narrow terminals."""

    def get_renderables(self) -> Iterator[RenderableType]:
        """The bar, and under it the facts if there are any."""
        yield from super().get_renderables()
        for row in self.tasks:
            if row.fields["facts"]:
                yield Text(row.fields["facts"], no_wrap=True, overflow="ellipsis")


class LiveBar:
    """A bar at the bottom of a terminal; until it is closed, print and logging go above it."""

    def __init__(self, console: Console, phase: str, total: float, step: int = 0):
        left = TextColumn("{task.fields[left]}")
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), left)
        self._bar = _BarAndFacts(*columns, console=console, refresh_per_second=4)
        self._row = self._bar.add_task(phase, total=total, completed=step, left="", facts="")
        streams = (sys.stdout, sys.stderr)
        self._bar.start()
        self._borrowed = list(_redirect_logs(*streams))

    def update(self, **changes: Any) -> None:
        """Change the description, what is completed, what is left, or the facts below; or advance it."""
        self._bar.update(self._row, **changes)

    def close(self) -> None:
        """Draw it for the last time and give the terminal back."""
        self._bar.stop()
        for handler, stream in self._borrowed:
            handler.setStream(stream)


def _redirect_logs(stdout: Any, stderr: Any) -> Iterator[tuple[Any, Any]]:
    """Log handlers hold on to the stream they were made with: hand them those that draw above the bar."""
    loggers = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
    handlers = {handler for logger in loggers for handler in getattr(logger, "handlers", ())}
    for handler in handlers:
        for old, new in ((stdout, sys.stdout), (stderr, sys.stderr)):
            if getattr(handler, "stream", None) is old and old is not new:
                handler.setStream(new)
                yield handler, old
                break
