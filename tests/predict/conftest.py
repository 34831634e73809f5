"""Images and an untrained run to predict them with."""

from pathlib import Path

import pytest
from tiny import make_spots
from tiny_run import make_tiny_run


@pytest.fixture(scope="module")
def spots(tmp_path_factory) -> Path:
    """Images of two sizes."""
    return make_spots(tmp_path_factory.mktemp("data") / "spots", 20, sizes=(64, 80))


@pytest.fixture(scope="module")
def run(spots, tmp_path_factory) -> Path:
    """A run of patch selection that prepares nothing."""
    return make_tiny_run(tmp_path_factory.mktemp("runs"), spots)
