"""Whole systems that do not take the path: what patch selection is compared with."""

from saccade.baselines.cnn import CNN
from saccade.baselines.ips import IPS
from saccade.baselines.majority import Majority
from saccade.baselines.spatial_transformer import SpatialTransformer

__all__ = ["CNN", "IPS", "Majority", "SpatialTransformer"]
