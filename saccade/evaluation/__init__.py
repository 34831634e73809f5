"""A model and images → what it says of each, how good that is, and what it costs."""

from saccade.evaluation.cost import multiply_adds, peak_memory_mb
from saccade.evaluation.measures import measure, wilson_interval
from saccade.evaluation.overlaps import best_overlap, mutual_overlap
from saccade.evaluation.predictions import Predictions, gather, predict_batch

__all__ = [
    "Predictions",
    "best_overlap",
    "gather",
    "measure",
    "multiply_adds",
    "mutual_overlap",
    "peak_memory_mb",
    "predict_batch",
    "wilson_interval",
]
