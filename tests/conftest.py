"""Shared by all tests: run-time shape checks, seeded generators, and where the real data lies."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, or a skip that says what was missing."""
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no chromium on the PATH (Debian: apt install chromium)")
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium)
        yield browser
        browser.close()
