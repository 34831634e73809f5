"""A model and images → what it says of each, and how good that is."""

from saccade.evaluation.looking import best_overlap, hits
from saccade.evaluation.measures import measure, wilson_interval
from saccade.evaluation.predictions import Predictions, gather, predict_batch

__all__ = ["Predictions", "best_overlap", "gather", "hits", "measure", "predict_batch", "wilson_interval"]
