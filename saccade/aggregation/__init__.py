"""features → pooled."""

from saccade.aggregation.aggregator import Aggregator, check_together
from saccade.aggregation.attention import GatedAttention
from saccade.aggregation.placed_pool import Placed
from saccade.aggregation.pool import Concat, Max, Mean
from saccade.aggregation.transformer import Transformer

__all__ = ["Aggregator", "Concat", "GatedAttention", "Max", "Mean", "Placed", "Transformer", "check_together"]
