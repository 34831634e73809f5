"""patches → features."""

from saccade.features.cells import Cells
from saccade.features.feature_network import FeatureNetwork
from saccade.features.thin import ATSNet, ThinResNet
from saccade.features.timm_backbone import Backbone

__all__ = ["ATSNet", "Backbone", "Cells", "FeatureNetwork", "ThinResNet"]
