"""One's own images → a recipe, each choice with its reason."""

from saccade.training.defaults.choices import Choice
from saccade.training.defaults.probe import refuse_too_small, sample_sizes, weights_within_reach
from saccade.training.defaults.propose import flatten, propose

__all__ = ["Choice", "flatten", "propose", "refuse_too_small", "sample_sizes", "weights_within_reach"]
