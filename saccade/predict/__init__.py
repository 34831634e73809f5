"""A trained model on any image: `Predictor(run)(image)`."""

from saccade.predict.outcomes import Box, Failure, Prediction
from saccade.predict.predictor import Predictor

__all__ = ["Box", "Failure", "Prediction", "Predictor"]
