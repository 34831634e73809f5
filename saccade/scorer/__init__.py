"""view → scores."""

from saccade.scorer.backbone_scorer import BackboneScorer
from saccade.scorer.conv_scorer import ConvScorer
from saccade.scorer.scored import Scored, attend

SCORERS = {"conv": ConvScorer, "backbone": BackboneScorer}

__all__ = ["SCORERS", "BackboneScorer", "ConvScorer", "Scored", "attend"]
