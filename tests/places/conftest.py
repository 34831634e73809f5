"""Servers on loopback."""

from hub import hub
from loopback import cache, server, slide

__all__ = ["cache", "hub", "server", "slide"]
