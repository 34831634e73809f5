"""The numbers of a run, step by step: into `metrics.csv` and to TensorBoard."""

import threading
from collections.abc import Mapping

from lightning.fabric.loggers.tensorboard import TensorBoardLogger

from saccade.files import FULL
from saccade.runs import RunFolder


class RunLog:
    """Both logs, with what was known when `step` steps had been taken."""

    def __init__(self, files: RunFolder, step: int):
        self.table = files.open_metrics(step=step)
        self.board = TensorBoardLogger(files.path, "tensorboard", "", purge_step=step + 1)
        # Its thread prints a traceback when the disk is full, and then tells whoever writes next.
        self.told_elsewhere, threading.excepthook = threading.excepthook, self._in_a_thread

    def _in_a_thread(self, raised: threading.ExceptHookArgs) -> None:
        if not (isinstance(raised.exc_value, OSError) and raised.exc_value.errno in FULL):
            self.told_elsewhere(raised)

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Numbers of a step."""
        self.table.add(step, values)
        self.board.log_metrics(values, step)

    def save(self) -> None:
        """Both are on the disk."""
        self.table.save()
        self.board.save()

    def close(self) -> None:
        """Nothing more comes, or the run was stopped between two validations."""
        try:
            self.table.save()
            self.board.finalize("")
        finally:
            threading.excepthook = self.told_elsewhere
