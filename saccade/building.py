"""Whole models by name: a system is built from a `ModelConfig`, gives an output with logits, and has a loss."""

from pathlib import Path
from typing import Any

from saccade.config import ModelConfig
from saccade.model import PatchSelectionModel
from saccade.system import System, read_config
from saccade.systems import CNN, IPS, Majority, SpatialTransformer
from saccade.systems.nts import NTSNet, NTSTopK

SYSTEMS: dict[str, Any] = {
    "patch_selection": PatchSelectionModel,
    "cnn": CNN,
    "majority": Majority,
    "ips": IPS,
    "spatial": SpatialTransformer,
    "nts_net": NTSNet,
    "nts_topk": NTSTopK,
}


def build_model(config: ModelConfig) -> System:
    """The model that `config` describes."""
    return _system(config.system)(config)


def load_model(folder: str | Path) -> System:
    """The model in `folder`, of whichever system, in evaluation mode."""
    return _system(read_config(folder).system).from_pretrained(folder)


def _system(name: str) -> Any:
    if name not in SYSTEMS:
        raise ValueError(f"unknown system {name!r}: expected one of {', '.join(SYSTEMS)}")
    return SYSTEMS[name]
