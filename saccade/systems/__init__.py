"""Whole systems that do not take the path: what patch selection is compared with."""

from saccade.systems.cnn import CNN
from saccade.systems.ips import IPS
from saccade.systems.majority import Majority
from saccade.systems.spatial_transformer import SpatialTransformer

__all__ = ["CNN", "IPS", "Majority", "SpatialTransformer"]
