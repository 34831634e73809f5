"""Whole systems: the path itself, and those that patch selection is compared with."""

from saccade.model import PatchSelectionModel
from saccade.systems.cnn import CNN
from saccade.systems.ips import IPS
from saccade.systems.majority import Majority
from saccade.systems.nts import NTSNet, NTSTopK
from saccade.systems.spatial_transformer import SpatialTransformer

__all__ = ["CNN", "IPS", "Majority", "NTSNet", "NTSTopK", "PatchSelectionModel", "SpatialTransformer"]
