"""`saccade doctor`: what it tells, and that a device which answers otherwise is told."""

import copy

import pytest
import torch

import saccade
from saccade import doctor
from saccade.cli import main


@pytest.fixture
def second_processor(monkeypatch):
    """A small model, and the processor itself as an accelerator."""
    monkeypatch.setattr(doctor, "SIZE", (160, 240))
    monkeypatch.setattr(doctor, "STEPS", 1)
    monkeypatch.setattr(doctor, "accelerators", lambda: [torch.device("cpu")])


@pytest.mark.usefixtures("second_processor")
def test_it_tells_what_is_there_and_that_devices_agree(capsys, monkeypatch):
    monkeypatch.setitem(doctor.EXTRAS, "slides", ("no_such_module",))
    assert main(["doctor"]) == 0
    told = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert told["saccade"].startswith(saccade.__version__)
    assert torch.__version__.startswith(told["torch"])
    assert told["[slides]"] == "no_such_module missing: pip install 'saccade[slides]'"
    assert told["answers"].endswith("  the processor's answers: logits differ by 0.0e+00")


@pytest.mark.usefixtures("second_processor")
def test_a_device_that_answers_otherwise_is_told(capsys, monkeypatch):
    def broken(model):
        model = copy.deepcopy(model)
        with torch.no_grad():
            next(model.prediction.parameters()).mul_(2)
        return model

    monkeypatch.setattr(doctor, "deepcopy", broken)
    assert main(["doctor"]) == 1
    assert "NOT the processor's answers" in capsys.readouterr().out
