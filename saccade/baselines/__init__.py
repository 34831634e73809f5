"""Whole systems that do not take the path: what patch selection is compared with."""

from saccade.baselines.cnn import CNN

__all__ = ["CNN"]
