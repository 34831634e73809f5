"""The training part of a run with chosen callbacks and nothing around it: no report, no test."""

from pathlib import Path
from typing import Any

import lightning
from lightning.pytorch import Callback

from saccade.training import trainer
from saccade.training.callbacks.checkpoints import Checkpoints, latest_whole
from saccade.training.recipe import Recipe
from saccade.training.run import make_task
from saccade.training.task import Task


def make_trainer(recipe: Recipe, folder: Path, *callbacks: Callback, logger: Any = False) -> lightning.Trainer:
    return trainer.make_trainer(recipe, folder, callbacks=list(callbacks), logger=logger)


def fit(recipe: Recipe, folder: Path, *callbacks: Callback, logger: Any = False) -> None:
    """Train from the beginning, or from the last checkpoint in `folder`."""
    trainer = make_trainer(recipe, folder, *callbacks, Checkpoints(folder, best_by="accuracy"), logger=logger)
    trainer.fit(make_task(recipe), ckpt_path=latest_whole(folder / "checkpoints"))


def crash_at(step: int, monkeypatch: Any) -> None:
    """The next run fails when `step` is about to be taken."""
    begin = Task.on_train_batch_start

    def begin_or_crash(self: Task, batch: Any, batch_idx: int) -> None:
        if self.global_step == step:
            monkeypatch.undo()
            raise CrashError
        begin(self, batch, batch_idx)

    monkeypatch.setattr(Task, "on_train_batch_start", begin_or_crash)


class CrashError(RuntimeError):
    """Not the run's fault."""
