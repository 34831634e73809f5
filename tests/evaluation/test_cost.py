"""Multiply-adds against counting by hand."""

import importlib
import math
import sys
from typing import Any

import pytest
import torch
from torch import nn

from saccade import ModelConfig, PatchSelectionModel
from saccade.building import build_model
from saccade.evaluation import cost, multiply_adds, peak_memory_mb


def test_the_scorer_and_the_features_are_counted_apart():
    options = {"view": {"scale": 0.5}, "scorer": {"name": "conv", "widths": [4], "kernel": 1, "pool": 4}}
    stages = {
        **options,
        "selection": {"name": "hard", "k": 3},
        "extraction": {"patch": 16},
        "features": {"name": "ats"},
    }
    model = PatchSelectionModel.from_config(ModelConfig(num_classes=2, image_size=(64, 64), **stages)).train()
    counts = multiply_adds(model, (64, 64))
    view = 32 * 32
    assert counts["scorer"] == view * (3 * 4 + 4 * 1)
    head = 32 * 32 + 32 * 2
    assert counts["total"] == counts["scorer"] + counts["features"] + head
    assert model.training
    gray = PatchSelectionModel.from_config(ModelConfig(num_classes=2, image_size=(64, 64), channels=1, **stages))
    assert multiply_adds(gray, (64, 64), channels=1)["scorer"] == view * (1 * 4 + 4 * 1)


@pytest.mark.parametrize(
    ("system", "selection", "aggregation"),
    [("nts_net", {"name": "nms", "k": 2, "proposals": 3}, "concat"), ("nts_topk", {"name": "hard", "k": 2}, "mean")],
)
def test_a_backbone_that_reads_the_view_and_the_parts_is_counted_with_both(system, selection, aggregation):
    stages = {
        "view": {"scale": 0.5},
        "scorer": {"name": "proposals", "hidden": 16},
        "selection": selection,
        "extraction": {"patch": 32},
        "features": {"name": "backbone", "model": "test_resnet"},
        "aggregation": {"name": aggregation},
    }
    model: Any = build_model(ModelConfig(system=system, num_classes=3, image_size=(128, 160), **stages))
    counts = multiply_adds(model, (128, 160))
    backbone = nn.Sequential(model.features)
    view = multiply_adds(backbone, (64, 96))["total"]  # 64×80, filled up to whole cells
    assert counts["features"] == view + 2 * multiply_adds(backbone, (32, 32))["total"]
    # Of the image and its two parts, which concat joins and mean adds; the other two heads only teach.
    heads = 3 * {"concat": 3, "mean": 1}[aggregation] * model.features.width
    assert counts["total"] == counts["scorer"] + counts["features"] + heads


def test_a_bias_alone_costs_nothing():
    config = ModelConfig(system="majority", num_classes=3, image_size=(64, 64))
    assert multiply_adds(build_model(config), (64, 64)) == {"total": 0}


def test_features_grow_with_the_number_of_patches():
    def features(k):
        config = ModelConfig(
            num_classes=2, image_size=(64, 64), selection={"name": "hard", "k": k}, extraction={"patch": 16}
        )
        return multiply_adds(PatchSelectionModel.from_config(config), (64, 64))["features"]

    assert features(4) == 4 * features(1)


def test_peak_memory_grows_with_what_is_held():
    before = int(peak_memory_mb())
    held = torch.ones(before + 200, 2**20, dtype=torch.uint8)
    assert len(held) <= peak_memory_mb() <= before + len(held) + 100


def test_where_python_cannot_tell_its_memory_it_is_no_number(monkeypatch):
    monkeypatch.setitem(sys.modules, "resource", None)  # as on Windows
    assert math.isnan(importlib.reload(cost).peak_memory_mb())


def test_a_transformer_is_counted_though_torch_would_fuse_it():
    def total(layers):
        aggregation = {"name": "transformer", "layers": layers}
        stages = {"extraction": {"patch": 16}, "selection": {"name": "hard", "k": 4}, "aggregation": aggregation}
        model = PatchSelectionModel.from_config(ModelConfig(num_classes=2, image_size=(64, 64), **stages))
        return multiply_adds(model, (64, 64))["total"]

    slots, dim, hidden = 4, 256, 512
    projections, attention = 4 * slots * dim * dim, 2 * slots * slots * dim
    assert total(2) - total(1) == projections + attention + 2 * slots * dim * hidden


def test_a_model_in_double_precision_is_counted_too():
    stages = {"extraction": {"patch": 16}, "selection": {"name": "hard", "k": 4}}
    model = PatchSelectionModel.from_config(ModelConfig(num_classes=2, image_size=(64, 64), **stages))
    assert multiply_adds(model.double(), (64, 64)) == multiply_adds(model.float(), (64, 64))
