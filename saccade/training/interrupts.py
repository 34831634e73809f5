"""Ctrl-C, or SIGTERM as clusters send it: the step under way ends, everything is saved, and the run can be resumed."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import torch
from lightning.fabric import Fabric


class Stopped(Exception):  # noqa: N818 (not an error)
    """The user asked to stop; everything up to here is saved."""


class StopRequest:
    """Whether somebody asked to stop. Asking a second time stops at once."""

    def __init__(self) -> None:
        self.asked = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """While this lasts, Ctrl-C and SIGTERM ask to stop."""
        before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def of_anyone(self, fabric: Fabric) -> bool:
        """Whether any process was asked: all must stop at the same step, or the others would wait forever."""
        if fabric.world_size == 1:
            return self.asked
        return bool(fabric.all_reduce(torch.tensor(float(self.asked), device=fabric.device), reduce_op="sum"))
