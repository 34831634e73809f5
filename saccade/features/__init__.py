"""patches → features."""

from saccade.features.feature_network import FeatureNetwork
from saccade.features.thin import ATSNet, ThinResNet
from saccade.features.timm_backbone import Backbone

__all__ = ["ATSNet", "Backbone", "FeatureNetwork", "ThinResNet"]
