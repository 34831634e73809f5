"""Images of one's own, for every command."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

RNG = np.random.default_rng(0)


@pytest.fixture
def pets(tmp_path) -> Path:
    for label in ("cat", "dog"):
        (tmp_path / "pets" / label).mkdir(parents=True)
        for number in range(10):
            pixels = RNG.integers(0, 256, (12, 16, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pets" / label / f"{number}.png")
    return tmp_path / "pets"
