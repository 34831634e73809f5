"""What a run needs to go on: written whole or not at all, the last two kept, a damaged one passed over."""

import logging
import math
import os
import pickle
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, cast

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.plugins.io import TorchCheckpointIO
from lightning.pytorch.trainer.states import TrainerFn

from saccade.files import whole_file
from saccade.system import System
from saccade.training.task import Task

log = logging.getLogger("saccade")

KEPT = 2
SMALLER_IS_BETTER = {"loss"}


class Stopped(Exception):  # noqa: N818 (no error; and not a KeyboardInterrupt, on which Lightning exits by itself)
    """The user asked to stop; everything up to here is saved."""


class WholeFiles(TorchCheckpointIO):
    """Checkpoints appear under their name only when they are complete and on the disk."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Write beside the place, then move there."""
        with whole_file(path) as part:
            super().save_checkpoint(checkpoint, part, storage_options)
            with part.open("rb") as file:
                os.fsync(file.fileno())


def latest_whole(folder: Path) -> Path | None:
    """The newest checkpoint that can be read; a damaged one is told of and the one before it is taken."""
    for path in sorted(folder.glob("*.ckpt"), reverse=True):
        try:
            torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except (RuntimeError, OSError, EOFError, pickle.UnpicklingError) as error:
            log.warning("%s cannot be read (%s): going on from the one before it", path, str(error).splitlines()[0])
        else:
            return path
    return None


class Checkpoints(Callback):
    """Saves the run after every validation, the best model when it is one, and everything when asked to stop.

    Ctrl-C (or SIGTERM, as clusters send it) lets the present step end, saves and raises `Stopped`; a second one stops
    at once.

    best_by: the number of the validation that says so; None takes the last model as the best.
    saved:   called after each checkpoint.
    """

    def __init__(self, run: Path, *, best_by: str | None, saved: Callable[[], None] = lambda: None):
        self.run = run
        self.best_by = best_by
        self.saved = saved
        self.best: float | None = None
        self._asked_to_stop = False

    def state_dict(self) -> dict[str, Any]:
        """The best value so far."""
        return {"best": self.best}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """The best value of the run that goes on."""
        self.best = state_dict["best"]

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save."""
        if trainer.state.fn != TrainerFn.FITTING:
            return
        task = cast(Task, pl_module)
        value = self._value(task)
        # Weights that are lost still answer something, and may be right by chance.
        sound = math.isfinite(value) and math.isfinite(task.measures["loss"])
        # Of equals the later one: a few validation images are soon all answered right, long before training has ended.
        if task.main_step > 0 and sound and (self.best is None or value >= self.best):
            self.best = value
            self._export(trainer, task.model, "best")
        self._export(trainer, task.model, "last")
        self.save(trainer)
        if task.main_step < task.recipe.steps and self._anyone_asked(trainer):
            self._stop(trainer)

    def _value(self, task: Task) -> float:
        """How good the model is, the higher the better."""
        if self.best_by is None:
            return float(task.main_step)
        return task.measures[self.best_by] * (-1 if self.best_by in SMALLER_IS_BETTER else 1)

    def _export(self, trainer: Trainer, model: System, name: str) -> None:
        if trainer.is_global_zero:
            model.save_pretrained(self.run / name)

    def save(self, trainer: Trainer) -> None:
        """A checkpoint of this step; older ones than the last two go."""
        folder = self.run / "checkpoints"
        trainer.save_checkpoint(folder / f"{trainer.global_step:08d}.ckpt")
        if trainer.is_global_zero:
            for old in sorted(folder.glob("*.ckpt"))[:-KEPT]:
                old.unlink()
        self.saved()

    # ---- being asked to stop

    @contextmanager
    def listening(self) -> Iterator[None]:
        """While this lasts, Ctrl-C and SIGTERM ask to stop. Around the trainer, which sets handlers of its own."""
        before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Take SIGTERM back from Lightning, which would leave in the middle of a validation."""
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self._asked_to_stop:
            raise KeyboardInterrupt
        self._asked_to_stop = True

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Save and stop, if any process was asked to; unless a validation comes next, which saves when it is done."""
        task = cast(Task, pl_module)
        validation_follows = task.main_step >= task.recipe.steps or trainer.global_step % task.recipe.leg == 0
        if not validation_follows and self._anyone_asked(trainer):
            self.save(trainer)
            self._stop(trainer)

    def _anyone_asked(self, trainer: Trainer) -> bool:
        if trainer.world_size == 1:
            return self._asked_to_stop
        # All must stop at the same step, or those who go on would wait for ever.
        return trainer.strategy.reduce_boolean_decision(self._asked_to_stop, all=False)

    def _stop(self, trainer: Trainer) -> None:
        raise Stopped(f"stopped at step {trainer.global_step}")
