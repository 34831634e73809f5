"""features → pooled."""

from saccade.aggregation.attention import GatedAttention
from saccade.aggregation.placed_pool import Placed
from saccade.aggregation.pool import Concat, Max, Mean
from saccade.aggregation.transformer import Transformer

AGGREGATIONS = {
    "mean": Mean,
    "max": Max,
    "placed": Placed,
    "transformer": Transformer,
    "attention": GatedAttention,
    "concat": Concat,
}

__all__ = ["AGGREGATIONS", "Concat", "GatedAttention", "Max", "Mean", "Placed", "Transformer"]
