"""A bar at the bottom of the terminal that leaves the terminal usable: print, logging and warnings go above it."""

import logging
import sys
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn


class LiveBar:
    """A bar at the bottom of a terminal; until it is closed, print and logging go above it."""

    def __init__(self, console: Console, phase: str, total: float, step: int = 0):
        text = TextColumn("{task.fields[facts]}", markup=False)
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), MofNCompleteColumn(), text)
        self._bar = Progress(*columns, console=console, refresh_per_second=4)
        self._row = self._bar.add_task(phase, total=total, completed=step, facts="")
        streams = (sys.stdout, sys.stderr)
        self._bar.start()
        self._borrowed = list(_redirect_logs(*streams))

    def update(self, **changes: Any) -> None:
        """Change the description, what is completed, or the facts beside it; or advance it."""
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
