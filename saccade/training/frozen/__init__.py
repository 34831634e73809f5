"""A model whose network comes with weights begins with heads on features that are held still: see `frozen_start`."""

from saccade.training.frozen.frozen_start import FrozenStart, fit_frozen

__all__ = ["FrozenStart", "fit_frozen"]
