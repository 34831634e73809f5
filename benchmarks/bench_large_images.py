"""One prediction from 1 to 4,000 megapixels: the model on a source, the image decoded whole, every patch read.

python benchmarks/bench_large_images.py

Pyramids of deflated tiles (soft blotches, which compress well) up to 65,536² are written to the temporary folder, 5 GB
at most. "Predict" opens the file, makes the view at 1/16, scores it in tiles, and reads and answers from the ten best
patches of 224² with a ResNet-18. "Decode" is decoding the file to bytes alone, where those fit into 4 GB. "Every patch"
is reading and running the ResNet-18 over all patches side by side, measured on 32 of them and multiplied.
"""

import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tifffile
import torch
from measure import extra_peak_mb, extra_peak_mb_elsewhere, memory_case, print_table
from PIL import Image
from pyramids import TILE, MakeTile, encode, write_pyramid

from saccade.config import ModelConfig
from saccade.images import Sources, open_image
from saccade.model import PatchSelectionModel

SIDES = (1024, 4096, 16384, 32768, 65536)
SCALE, PATCH, K, MEASURED = 1 / 16, 224, 10, 32
DECODE_BYTES = 4e9


def make_tiles() -> MakeTile:
    """One of a hundred parts of one texture, by chance: neighbors do not match, which no reader minds."""
    coarse = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    texture = np.array(Image.fromarray(coarse).resize((4 * TILE, 4 * TILE), Image.Resampling.BICUBIC))

    corners = np.random.default_rng(1).integers(0, 3 * TILE, (100, 2))
    encoded = [encode(texture[y : y + TILE, x : x + TILE]) for y, x in corners]
    return lambda side, top, left: random.choice(encoded)


def make_model() -> PatchSelectionModel:
    """Made for images of 1,024², as any model it takes others."""
    torch.manual_seed(0)
    config = ModelConfig(
        num_classes=4,
        image_size=(1024, 1024),
        view={"scale": SCALE},
        selection={"name": "perturbed", "k": K},
        extraction={"patch": PATCH},
        features={"name": "backbone", "model": "resnet18"},
    )
    return PatchSelectionModel.from_config(config).eval()


def predict(path: Path, model: PatchSelectionModel) -> Callable[[], object]:
    def step() -> object:
        with torch.no_grad():
            return model(Sources([open_image(path)])).logits.argmax()

    return step


def decode(path: Path, model: PatchSelectionModel) -> Callable[[], object]:
    return lambda: tifffile.imread(path, level=0)


def some_patches(path: Path, model: PatchSelectionModel) -> Callable[[], object]:
    corners = torch.randint(800, (MEASURED, 2), generator=torch.Generator().manual_seed(0))

    def step() -> object:
        with torch.no_grad():
            regions = open_image(path).regions(torch.cat([corners, corners + PATCH], dim=1))
            return model.features(regions)

    return step


METHODS = {"predict": predict, "decode": decode, "every patch": some_patches}


def seconds(step: Callable[[], object]) -> float:
    """Of the second call: the first loads libraries."""
    step()
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def row(side: int, path: Path, model: PatchSelectionModel) -> list[str]:
    """Time and extra memory of each method on one image."""
    patches = (side // PATCH) ** 2
    taken = {"predict": seconds(predict(path, model))}
    memory = {"predict": extra_peak_mb_elsewhere(__file__, f"predict|{path}")}
    if 3 * side**2 <= DECODE_BYTES:
        taken["decode"] = seconds(decode(path, model))
        memory["decode"] = extra_peak_mb_elsewhere(__file__, f"decode|{path}")
    every = seconds(some_patches(path, model)) * patches / MEASURED
    cells = [f"{side**2 / 1e6:,.0f}", f"{side:,}²", f"{int(side * SCALE):,}²"]
    for method in ("predict", "decode"):
        cells += (
            [f"{taken[method]:.2f}", f"{memory[method]:,.0f}"]
            if method in taken
            else ["—", f"({3 * side**2 / 2**20:,.0f})"]
        )
    return [*cells, f"{every:,.1f}"]


def main() -> None:
    model, tile, rows = make_model(), make_tiles(), []
    for side in SIDES:
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            path = write_pyramid(Path(folder) / "image.tif", side, tile)
            written = time.perf_counter() - start
            print(f"{side}²: {path.stat().st_size / 1e6:,.0f} MB written in {written:.0f} s", flush=True)
            rows.append(row(side, path, model))
    header = [
        "megapixels", "size", "view", "predict s", "extra MB", "decode s", "extra MB", "every patch s (extrapolated)",
    ]  # fmt: skip
    print_table(f"One image: the {K} best of its patches of {PATCH}² px, or all of it", header, rows)


if __name__ == "__main__":
    if case := memory_case():
        method, path = case.split("|")
        print(extra_peak_mb(METHODS[method](Path(path), make_model())))
    else:
        main()
