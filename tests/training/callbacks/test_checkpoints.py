from types import SimpleNamespace
from unittest.mock import Mock

from lightning import LightningModule, Trainer
from lightning.pytorch.trainer.states import TrainerFn

from saccade.training.callbacks.checkpoints import Checkpoints


def test_of_equally_good_validations_the_later_model_is_kept(tmp_path, monkeypatch):
    kept = {}
    callback = Checkpoints(tmp_path, best_by="accuracy")
    monkeypatch.setattr(callback, "_export", lambda trainer, model, name: kept.update({name: model}))
    monkeypatch.setattr(callback, "save", lambda trainer: None)
    trainer = Mock(spec=Trainer, state=SimpleNamespace(fn=TrainerFn.FITTING))
    for number, accuracy in enumerate([0.5, 0.9, 0.9, 0.7], start=1):
        now = {"measures": {"accuracy": accuracy}, "main_step": number, "model": number}
        callback.on_validation_end(trainer, Mock(spec=LightningModule, recipe=SimpleNamespace(steps=0), **now))
    assert kept == {"best": 3, "last": 4}
