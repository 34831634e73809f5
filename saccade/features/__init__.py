"""patches → features."""

from saccade.features.backbone import Backbone
from saccade.features.thin import ATSNet, ThinResNet

FEATURES = {"ats": ATSNet, "thin": ThinResNet, "backbone": Backbone}

__all__ = ["FEATURES", "ATSNet", "Backbone", "ThinResNet"]
