"""`ModelConfig` → model, whichever system it names; and the same from a folder."""

from collections.abc import Sequence
from pathlib import Path

from saccade.config import ModelConfig, Stages
from saccade.extraction import Extraction
from saccade.images import View
from saccade.places import find_here
from saccade.registry import build, build_one, check_spec, import_parts, parts
from saccade.system import FILES, System, blaming, read_config


def build_model(config: ModelConfig) -> System:
    """The model that `config` describes.

    >>> build_model(ModelConfig(system="cnn", num_classes=4, image_size=(60, 80))).config.system
    'cnn'
    """
    return _system(config).from_config(config)


def check_parts(stages: Stages, imports: Sequence[str] = ()) -> None:
    """Refuse what `build_model` would refuse whatever the images are, before any is read."""
    import_parts(imports)
    _find_system(stages.system)
    build_one("view", View, stages.view)
    check_spec("features", stages.features)
    if stages.system == "patch_selection":
        build_one("extraction", Extraction, stages.extraction)
        build("selection", stages.selection)
        for stage in ("scorer", "aggregation", "prediction"):
            check_spec(stage, getattr(stages, stage))


def load_model(model: str | Path) -> System:
    """The model in a folder, or of a name on the hub ("user/model"), of whichever system, in evaluation mode."""
    folder = find_here(model, FILES)
    config = read_config(folder)
    with blaming(folder):
        system = _system(config)
    return system.from_files(folder, config)


def _system(config: ModelConfig) -> type[System]:
    import_parts(config.imports)
    return _find_system(config.system)


def _find_system(name: str) -> type[System]:
    systems = parts("system")
    if name not in systems:
        raise ValueError(f"unknown system {name!r}: expected one of {', '.join(systems)}")
    return systems[name]
