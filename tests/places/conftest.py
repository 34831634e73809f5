"""Servers on loopback."""

from loopback import cache, server, slide

__all__ = ["cache", "server", "slide"]
