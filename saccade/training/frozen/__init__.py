"""A model whose network comes with weights begins with heads on features that are held still: see `frozen_start`."""

from saccade.training.frozen.begin import begin_frozen
from saccade.training.frozen.frozen_start import Answer, FrozenStart, fit_frozen
from saccade.training.frozen.trial import try_tuning

__all__ = ["Answer", "FrozenStart", "begin_frozen", "fit_frozen", "try_tuning"]
