"""Those who look on while a run trains: showing, watching."""

from saccade.training.observers.collapse import CollapseWatch
from saccade.training.observers.panels import Panels
from saccade.training.observers.progress import Progress

__all__ = ["CollapseWatch", "Panels", "Progress"]
