"""features → pooled."""

from saccade.aggregation.pool import Concat, Max, Mean
from saccade.aggregation.transformer import Transformer

AGGREGATIONS = {"mean": Mean, "max": Max, "transformer": Transformer, "concat": Concat}

__all__ = ["AGGREGATIONS", "Concat", "Max", "Mean", "Transformer"]
