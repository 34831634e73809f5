"""Shared by all tests: run-time shape checks, seeded generators, and where the real data lies."""

import os
from pathlib import Path

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

install_import_hook("saccade", "typecheck.checked")
settings.register_profile("untimed", deadline=None)  # a busy machine is no failure
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data, or a skip that says what was missing."""
    folder = Path(os.environ.get("SACCADE_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}: set SACCADE_DATA to the folder that holds mnist, kolektor, …")
    return folder
