"""Images, and runs with untrained models to predict them with: what they say is as good to compare as any."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import make_spots

from saccade import ModelConfig
from saccade.building import build_model
from saccade.preparation import Preparation

STAGES = {
    "view": {"scale": 0.25},
    "scorer": {"name": "conv", "widths": [4], "pool": 2},
    "selection": {"name": "perturbed", "k": 2, "num_samples": 20},
    "extraction": {"patch": 20},
    "features": {"name": "ats", "width": 8},
}


@pytest.fixture(scope="session")
def spots(tmp_path_factory) -> Path:
    """Images of two sizes."""
    return make_spots(tmp_path_factory.mktemp("data") / "spots", 20, sizes=(64, 80))


@pytest.fixture(scope="session")
def make_run(spots, tmp_path_factory) -> Callable[..., Path]:
    """A run folder of the data set `spots`; the preparation and the stages may be changed."""

    def make(*, preparation: dict[str, Any] | None = None, **stages: Any) -> Path:
        prepared = Preparation(**preparation or {})
        config = ModelConfig(
            num_classes=2,
            image_size=prepared.seen_size((64, 64)),
            classes=("across", "along"),
            preparation=prepared,
            **{**STAGES, **stages},
        )
        folder = tmp_path_factory.mktemp("runs")
        torch.manual_seed(0)
        build_model(config).save_pretrained(folder / "best")
        (folder / "recipe.yaml").write_text(json.dumps({"data": {"path": str(spots)}}))
        return folder

    return make


@pytest.fixture(scope="session")
def run(make_run) -> Path:
    """A run of patch selection that prepares nothing."""
    return make_run()
