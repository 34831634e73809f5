"""Every Python block of the README and the docs runs as it stands, the blocks of a page one after the other.

What a page takes for granted, its reader's own files and objects, is made here.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import torch
from hub import hub
from PIL import Image
from safetensors.torch import save_file

from saccade import ModelConfig, build_model

__all__ = ["hub"]
ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^ *```python\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
OWN_TEST = {"write_your_own_selector.md"}  # tests/test_docs_selector.py
PAGES = {
    path.relative_to(ROOT).as_posix(): BLOCK.findall(path.read_text())
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if path.name not in OWN_TEST
}


@pytest.fixture
def model():
    torch.manual_seed(0)
    options: dict[str, Any] = {"num_classes": 3, "classes": ("50", "70", "80"), "image_size": (96, 128)}
    stages: dict[str, Any] = {"view": {"scale": 0.25}, "extraction": {"patch": 32}, "features": {"name": "thin"}}
    return build_model(ModelConfig(**options, **stages, selection={"name": "hard", "k": 2}))


@pytest.fixture
def reader(model, hub, tmp_path, monkeypatch) -> dict[str, Any]:
    """Files in the current folder, and the names that a reader of the page has."""
    monkeypatch.chdir(tmp_path)
    pixels = np.random.default_rng(0).integers(0, 256, (128, 160, 3), dtype=np.uint8)
    flowers = [f"flowers/{kind}/{number}.png" for kind in ("daisy", "rose") for number in range(10)]
    parts = [f"parts/{kind}/part{17 + number}_{kind}.png" for kind in ("crack", "sound") for number in range(10)]
    for number, name in enumerate(["photos/000003.jpg", "boards/1.png", *flowers, *parts]):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.roll(pixels, number, axis=1)).save(name)
    tifffile.imwrite("slide.svs", pixels, photometric="rgb", tile=(32, 32), compression="deflate")
    model.save_pretrained("runs/signs-perturbed")
    model.save_pretrained("runs/boards")
    model.save_pretrained("best")
    hub.put("birds/marks", Path("best"))
    save_file(model.state_dict(), "best/model.safetensors")  # by hand: without a checksum
    return {
        "model": model.eval(),
        "paths": ["photos/000003.jpg"],
        "boxes": torch.tensor([[0, 0, 32, 32], [8, 8, 40, 40]]),
        "images": torch.rand(2, 3, 500, 500),
        "device": "cpu",
    }


@pytest.mark.parametrize("page", [page for page, blocks in PAGES.items() if blocks])
def test_python_of_a_page_runs(page, reader):
    names = dict(reader)
    for block in PAGES[page]:
        exec(compile(block, page, "exec"), names)


def test_blocks_are_found():
    assert sum(map(len, PAGES.values())) >= 12
    marked = sum(path.read_text().count("```py") for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
    assert sum(map(len, PAGES.values())) + 2 == marked  # the selector's page has two
