"""Whole models by name."""

from typing import Any

import pytest
import torch

from saccade import ModelConfig
from saccade.systems import SYSTEMS, build_model, load_model


def config(system, **stages):
    return ModelConfig(system=system, num_classes=3, image_size=(64, 64), **stages)


def test_an_unknown_system_is_refused_with_the_names_of_all():
    with pytest.raises(ValueError, match=f"unknown system 'cmm': expected one of {', '.join(SYSTEMS)}"):
        build_model(config("cmm"))


@pytest.mark.parametrize("system", SYSTEMS)
def test_options_that_a_system_does_not_have_are_refused(system):
    features = {"name": "backbone", "model": "resnet18"} if system.startswith("nts") else {"name": "thin"}
    selection = {"name": "nms", "k": 2} if system == "nts_net" else {"name": "perturbed", "k": 2}
    scorer = {"name": "proposals"} if system.startswith("nts") else {"name": "conv"}
    stages = {"features": features, "selection": selection, "scorer": scorer, "extraction": {"patch": 32}}
    with pytest.raises(ValueError, match=f"system {system} has no option.*wheels"):
        build_model(config(system, **stages, options={"wheels": 4}))


def test_a_saved_model_comes_back_as_the_system_it_was(tmp_path):
    model: Any = build_model(config("majority"))
    with torch.no_grad():
        model.bias.copy_(torch.tensor([1.0, 2.0, 3.0]))
    model.save_pretrained(tmp_path)
    again: Any = load_model(tmp_path)
    assert type(again) is type(model)
    assert torch.equal(again.bias, model.bias)
