"""Whole models by name."""

import inspect
from typing import Any

import pytest
import torch

from saccade import ModelConfig, PatchSelectionModel
from saccade.building import build_model, load_model
from saccade.registry import parts


def config(system, **stages):
    return ModelConfig(system=system, num_classes=3, image_size=(64, 64), **stages)


def test_an_unknown_system_is_refused_with_the_names_of_all():
    with pytest.raises(ValueError, match=f"unknown system 'cmm': expected one of {', '.join(parts('system'))}"):
        build_model(config("cmm"))


@pytest.mark.parametrize("system", parts("system"))
def test_options_that_a_system_does_not_have_are_refused(system):
    features = {"name": "backbone", "model": "resnet18"} if system.startswith("nts") else {"name": "thin"}
    selection = {"name": "nms", "k": 2} if system == "nts_net" else {"name": "perturbed", "k": 2}
    scorer = {"name": "proposals"} if system.startswith("nts") else {"name": "conv"}
    stages = {"features": features, "selection": selection, "scorer": scorer, "extraction": {"patch": 32}}
    for build in (build_model, parts("system")[system].from_config):
        with pytest.raises(ValueError, match=f"system {system} has no option.*wheels"):
            build(config(system, **stages, options={"wheels": 4}))


def test_another_system_is_told_apart_from_a_broken_folder(tmp_path):
    build_model(config("cnn")).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"config.json: the system is cnn, not PatchSelectionModel: use .*load_model"):
        PatchSelectionModel.from_pretrained(tmp_path)


@pytest.mark.parametrize("system", ["patch_selection", "cnn", "ips", "spatial", "nts_topk", "nts_net"])
@pytest.mark.parametrize(
    "images",
    [torch.zeros(1, 3, 64, 64, dtype=torch.uint8), torch.zeros(3, 64, 64), torch.zeros(1, 1, 64, 64)],
    ids=["bytes", "one image", "gray"],
)
def test_what_is_no_batch_of_images_is_refused(system, images):
    stages: dict[str, Any] = {"extraction": {"patch": 32}, "features": {"name": "backbone", "model": "test_resnet"}}
    if system.startswith("nts"):
        selection = {"name": "nms" if system == "nts_net" else "perturbed", "k": 2}
        stages |= {"scorer": {"name": "proposals"}, "aggregation": {"name": "mean"}, "selection": selection}
    model = build_model(config(system, **stages, **({} if system in ("ips", "spatial") else {"view": {"scale": 1}})))
    with pytest.raises(ValueError, match=r"expected \(batch, 3, height, width\) .* saccade\.images\.unit_range"):
        inspect.unwrap(type(model).forward)(model, images)


def test_a_saved_model_comes_back_as_the_system_it_was(tmp_path):
    model: Any = build_model(config("majority"))
    with torch.no_grad():
        model.bias.copy_(torch.tensor([1.0, 2.0, 3.0]))
    model.save_pretrained(tmp_path)
    again: Any = load_model(tmp_path)
    assert type(again) is type(model)
    assert torch.equal(again.bias, model.bias)
