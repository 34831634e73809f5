import math
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from lightning import Trainer
from lightning.pytorch.trainer.states import TrainerFn

from saccade.training.callbacks.checkpoints import Checkpoints
from saccade.training.task import Task


@pytest.mark.parametrize(
    ("best_by", "best"),
    [pytest.param("accuracy", 3, id="of equals the later"), pytest.param(None, 4, id="the last with a loss")],
)
def test_which_model_is_kept(best_by, best, tmp_path, monkeypatch):
    kept = {}
    callback = Checkpoints(tmp_path, best_by=best_by)
    monkeypatch.setattr(callback, "_export", lambda trainer, model, name: kept.update({name: model}))
    monkeypatch.setattr(callback, "save", lambda trainer: None)
    trainer = Mock(spec=Trainer, state=SimpleNamespace(fn=TrainerFn.FITTING))
    for number, (accuracy, loss) in enumerate([(0.5, 2), (0.9, 2), (0.9, 1), (0.7, 1), (1, math.nan)], start=1):
        now = {"measures": {"accuracy": accuracy, "loss": loss}, "main_step": number, "model": number}
        callback.on_validation_end(trainer, Mock(spec=Task, recipe=SimpleNamespace(steps=0), **now))
    assert kept == {"best": best, "last": 5}
