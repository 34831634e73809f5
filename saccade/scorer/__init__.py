"""view → scores."""

from saccade.scorer.conv import ConvScorer

SCORERS = {"conv": ConvScorer}

__all__ = ["SCORERS", "ConvScorer"]
