"""What happens around the steps of a run: saving, showing, watching."""

from saccade.training.callbacks.checkpoints import Checkpoints, Stopped
from saccade.training.callbacks.collapse import CollapseWatch
from saccade.training.callbacks.panels import Panels
from saccade.training.callbacks.progress import Progress

__all__ = ["Checkpoints", "CollapseWatch", "Panels", "Progress", "Stopped"]
