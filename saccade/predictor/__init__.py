"""A trained model on any image: `Predictor(run)(image)`."""

from saccade.predictor.answer import Box, Failure, Prediction
from saccade.predictor.predictor import Predictor

__all__ = ["Box", "Failure", "Prediction", "Predictor"]
