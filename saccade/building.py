"""`ModelConfig` → model, whichever system it names; and the same from a folder."""

from pathlib import Path

from saccade.config import ModelConfig
from saccade.registry import import_parts, parts
from saccade.system import System, read_config


def build_model(config: ModelConfig) -> System:
    """The model that `config` describes.

    >>> build_model(ModelConfig(system="cnn", num_classes=4, image_size=(60, 80))).config.system
    'cnn'
    """
    return _system(config).from_config(config)


def load_model(folder: str | Path) -> System:
    """The model in `folder`, of whichever system, in evaluation mode."""
    return _system(read_config(folder)).from_pretrained(folder)


def _system(config: ModelConfig) -> type[System]:
    import_parts(config.imports)
    systems = parts("system")
    if config.system not in systems:
        raise ValueError(f"unknown system {config.system!r}: expected one of {', '.join(systems)}")
    return systems[config.system]
