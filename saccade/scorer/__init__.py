"""view → scores."""

from saccade.scorer.backbone_scorer import BackboneScorer
from saccade.scorer.conv_scorer import ConvScorer
from saccade.scorer.scored import Scored, Scorer

__all__ = ["BackboneScorer", "ConvScorer", "Scored", "Scorer"]
