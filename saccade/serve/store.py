"""The store: pictures that were answered, for a while, so that the page can zoom into them.

Ids are random tokens that only the uploader is told. Bounded in number, in time and in memory, the longest unseen goes
first; files lie in one temporary folder, under names of ours, and go with their picture or with the server.
"""

import secrets
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from saccade.predict import Prediction
from saccade.serve.limits import Limits
from saccade.serve.tiles import Tiles

MAX_BYTES = 2**28  # of decoded pixels, unless a single picture has more


class Kept(NamedTuple):
    """A picture, what the model says of it, and the file that its tiles are read from."""

    tiles: Tiles
    prediction: Prediction
    file: Path


class Store:
    """Pictures by their token. Used from one event loop only."""

    def __init__(self, limits: Limits):
        self._limits = limits
        self._folder = tempfile.TemporaryDirectory(prefix="saccade-serve-")
        self._kept: dict[str, tuple[float, Kept]] = {}  # the longest unseen first

    def new_path(self) -> Path:
        """Where the next upload goes; nothing in it comes from the client."""
        return Path(self._folder.name) / secrets.token_hex(16)

    def add(self, kept: Kept) -> str:
        """Keep a picture; its token."""
        token = secrets.token_urlsafe(16)
        self._kept[token] = (time.monotonic(), kept)
        self.sweep()
        return token

    def get(self, token: str) -> Kept | None:
        """The picture of a token, as long as it is kept."""
        self.sweep()
        if token not in self._kept:
            return None
        _, kept = self._kept.pop(token)
        self._kept[token] = (time.monotonic(), kept)
        return kept

    def sweep(self) -> None:
        """Drop what is too old or too much."""
        oldest = time.monotonic() - self._limits.kept_s
        while self._kept:
            token, (seen, kept) = next(iter(self._kept.items()))
            memory = sum(other.tiles.num_bytes for _, other in self._kept.values())
            too_much = len(self._kept) > self._limits.kept or (memory > MAX_BYTES and len(self._kept) > 1)
            if seen > oldest and not too_much:
                return
            del self._kept[token]
            kept.file.unlink(missing_ok=True)

    def close(self) -> None:
        """Drop everything."""
        self._kept.clear()
        self._folder.cleanup()
