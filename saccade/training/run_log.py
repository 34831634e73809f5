"""The numbers of a run, step by step: into `metrics.csv`, to TensorBoard, and to whatever tracks the run besides."""

import threading
from collections.abc import Mapping

from lightning.fabric.loggers.tensorboard import TensorBoardLogger

from saccade.files import FULL, naming_what_is_full
from saccade.runs import RunFolder
from saccade.training.interrupts import Stopped
from saccade.training.tracking import Tracker


class RunLog:
    """The logs while the block lasts, with what was known when `step` steps had been taken."""

    def __init__(self, files: RunFolder, step: int, tracker: Tracker):
        self.tracker = tracker
        self.table = files.open_metrics(step=step)
        self.board = TensorBoardLogger(files.path, "tensorboard", "", purge_step=step + 1)
        self._board_folder = files.path / "tensorboard"
        # Its thread prints a traceback when the disk is full, and then tells whoever writes next.
        self.told_elsewhere, threading.excepthook = threading.excepthook, self._in_a_thread

    def _in_a_thread(self, raised: threading.ExceptHookArgs) -> None:
        if not (isinstance(raised.exc_value, OSError) and raised.exc_value.errno in FULL):
            self.told_elsewhere(raised)

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Numbers of a step."""
        self.table.add(step, values)
        with naming_what_is_full(self._board_folder):
            for name, value in values.items():
                self.board.experiment.add_scalar(name, value, step)
        self.tracker.add(step, values)

    def save(self) -> None:
        """Both are on the disk."""
        self.table.save()
        with naming_what_is_full(self._board_folder):
            self.board.save()

    def __enter__(self) -> "RunLog":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Nothing more comes, or the run was stopped between two validations.

        If something failed before, that is told: the disk that had no room for a model has none for the log either.
        """
        try:
            self.table.save()
            with naming_what_is_full(self._board_folder):
                self.board.finalize("")
        except OSError:
            if error is None or isinstance(error, Stopped):
                raise
        finally:
            threading.excepthook = self.told_elsewhere
