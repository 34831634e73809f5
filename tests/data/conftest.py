"""Servers on loopback."""

from loopback import cache, server

__all__ = ["cache", "server"]
