"""Where pixels come from."""

from saccade.images.regions import cut_regions
from saccade.images.view import View, make_view, view_size

__all__ = ["View", "cut_regions", "make_view", "view_size"]
