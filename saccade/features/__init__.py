"""patches → features."""

from typing import Any

from saccade.config import ModelConfig, build
from saccade.features.thin import ATSNet, ThinResNet
from saccade.features.timm_backbone import Backbone

FEATURES = {"ats": ATSNet, "thin": ThinResNet, "backbone": Backbone}


def build_features(config: ModelConfig, patch: tuple[int, int]) -> Any:
    """The feature network that `config` names, for patches of `patch` (height, width) pixels."""
    channels = {"patch": patch, "image_channels": config.channels}
    return build("features", FEATURES, config.features, config.input_channels, **channels)


__all__ = ["FEATURES", "ATSNet", "Backbone", "ThinResNet", "build_features"]
