"""patches → features."""

from saccade.features.ats import ATSNet
from saccade.features.backbone import Backbone

FEATURES = {"ats": ATSNet, "backbone": Backbone}

__all__ = ["FEATURES", "ATSNet", "Backbone"]
