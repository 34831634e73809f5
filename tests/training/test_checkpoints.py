import math
from unittest.mock import Mock

import pytest
import torch

from saccade.runs import RunFolder
from saccade.system import System
from saccade.training.checkpoints import BestModel, resume, save_checkpoint


@pytest.mark.parametrize(
    ("best_by", "best"),
    [pytest.param("accuracy", 3, id="of equals the later"), pytest.param(None, 4, id="the last with a loss")],
)
def test_which_model_is_kept(best_by, best, tmp_path, monkeypatch):
    kept = {}
    keeper = BestModel(RunFolder(tmp_path), best_by)
    monkeypatch.setattr(keeper, "_write", lambda model, folder: kept.update({folder.name: model}))
    for number, (accuracy, loss) in enumerate([(0.5, 2), (0.9, 2), (0.9, 1), (0.7, 1), (1, math.nan)], start=1):
        model = Mock(spec=System, number=number)
        keeper.keep(model, number, {"accuracy": accuracy, "loss": loss}, torch.tensor([]))
    assert {name: model.number for name, model in kept.items()} == {"best": best, "last": 5}


@pytest.mark.parametrize("resumed", [False, True])
@pytest.mark.parametrize(
    ("best_by", "gain", "beaten"),
    [
        pytest.param("loss", [0.02, 0.01, 0.02, 0.01], True, id="a little on every image"),
        pytest.param("loss", [2.0, -1.0, 1.0, -1.0], False, id="more in the mean, and by chance"),
        pytest.param("accuracy", [-0.01, 0.0, -0.01, 0.0], False, id="more right answers, and less sure ones"),
        pytest.param(None, [-1.0, -1.0, -1.0, -1.0], True, id="the last one whatever it is"),
    ],
)
def test_a_model_that_answers_at_once_is_beaten_image_by_image(best_by, gain, beaten, resumed, tmp_path, monkeypatch):
    kept = {}
    monkeypatch.setattr(BestModel, "_write", lambda self, model, folder: kept.update({folder.name: model.number}))
    keeper, losses = BestModel(RunFolder(tmp_path), best_by), torch.tensor([0.1, 5.0, 0.3, 2.0])
    keeper.begin(Mock(spec=System, number=0), {"accuracy": 0.5, "loss": 1.85}, losses)
    assert kept == {"best": 0, "last": 0}
    if resumed:
        state, keeper = keeper.state_dict(), BestModel(RunFolder(tmp_path), best_by)
        keeper.load_state_dict(state)
    keeper.keep(Mock(spec=System, number=1), 10, {"accuracy": 0.6, "loss": 1.8}, losses - torch.tensor(gain))
    assert kept == {"best": int(beaten), "last": 1}
    # Once it is beaten, validations compare as they always do.
    keeper.keep(Mock(spec=System, number=2), 20, {"accuracy": 0.7, "loss": 1.7}, losses - torch.tensor(gain))
    assert kept == {"best": 2 if beaten else 0, "last": 2}


class Counter:
    """Something with a state."""

    def __init__(self, value: int):
        self.value = value

    def state_dict(self):
        return {"value": self.value}

    def load_state_dict(self, state_dict):
        self.value = state_dict["value"]


def test_the_last_two_checkpoints_are_kept_and_the_newest_that_is_whole_is_taken(tmp_path):
    for step in (3, 6, 9):
        save_checkpoint(tmp_path, step, {"counter": Counter(step)})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000006.ckpt", "00000009.ckpt"]
    counter = Counter(0)
    assert resume(tmp_path, {"counter": counter}) == counter.value == 9
    (tmp_path / "00000009.ckpt").write_bytes(b"cut off")
    assert resume(tmp_path, {"counter": counter}) == counter.value == 6
    assert resume(tmp_path / "nowhere", {"counter": counter}) == 0
