"""A `Look` → a picture for people."""

from saccade.drawing.overlay import Caption, overlay

__all__ = ["Caption", "overlay"]
