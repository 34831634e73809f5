"""Training on slides: the `signs` scene at 20,000², a sign a hundred pixels wide, read in parts.

python benchmarks/bench_slide_training.py

Two tiled pyramids are written to the temporary folder: a street scene made twenty times larger, and somewhere in it at
full resolution, a sign or something that looks like one. Each step takes both of them, with `data.stream`: it opens the
files, reads the views, and goes forward and back. The other side is the same batch as a tensor, by its size alone.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from measure import extra_peak_mb, extra_peak_mb_elsewhere, memory_case, print_table
from PIL import Image
from pyramids import TILE, encode, write_pyramid

from saccade.config import ModelConfig
from saccade.datasets.dataset import Batch, ImageDataset, collate_sources
from saccade.datasets.records import Record, Records
from saccade.datasets.rendering.sign_plates import plate_box
from saccade.datasets.rendering.street_scene import render
from saccade.datasets.signs import CLASSES, draw_scene, label_of
from saccade.model import PatchSelectionModel
from saccade.training.warm_up import missing_detail, warm_up_loss

SIDE, SMALL, SIGN_PX, BATCH = 20_000, 1000, (96, 110), 2
MARGIN_PX, SCALE, SIGMA, WARM_UPS = 20, 1 / 16, 0.01, 3


class Slide:
    """Picture `index`: tiles of any level of it."""

    def __init__(self, index: int):
        self.scene = render(draw_scene(index, seed=0, size=(SMALL, SMALL)))
        close = draw_scene(index, seed=0, sign_px=SIGN_PX)
        box = plate_box(close.camera, close.plates[0])
        edges = box.left - MARGIN_PX, box.top - MARGIN_PX, box.right + MARGIN_PX, box.bottom + MARGIN_PX
        self.sign = render(close).crop(edges)
        self.left, self.top = np.random.default_rng(index).integers(TILE, SIDE - TILE, 2).tolist()

    def tile(self, side: int, top: int, left: int) -> bytes:
        """A tile of the level of `side`² pixels."""
        small = SMALL / side
        part = (left * small, top * small, min((left + TILE) * small, SMALL), min((top + TILE) * small, SMALL))
        width, height = min(TILE, side - left), min(TILE, side - top)
        tile = Image.new("RGB", (TILE, TILE))
        tile.paste(self.scene.resize((width, height), Image.Resampling.BICUBIC, part), (0, 0))
        scale = side / SIDE
        size = max(round(self.sign.width * scale), 1), max(round(self.sign.height * scale), 1)
        tile.paste(self.sign.resize(size), (round(self.left * scale) - left, round(self.top * scale) - top))
        return encode(np.array(tile))


def write_slides(folder: Path) -> None:
    """The pyramids 0.tif, 1.tif, …"""
    for index in range(BATCH):
        start = time.perf_counter()
        path = write_pyramid(folder / f"{index}.tif", SIDE, Slide(index).tile)
        taken = time.perf_counter() - start
        print(f"{path.name}: {path.stat().st_size / 1e6:,.0f} MB written in {taken:.0f} s", flush=True)


def read_slides(folder: Path) -> ImageDataset:
    """The data set of the pyramids in `folder`."""
    records = (Record(folder / f"{index}.tif", label_of(index, seed=0), "train") for index in range(BATCH))
    return ImageDataset(Records(folder, CLASSES, tuple(records)), stream=True)


def make_model() -> PatchSelectionModel:
    """A view of 1,250², 24,649 candidates of 160², of which 4 are looked at."""
    torch.manual_seed(0)
    config = ModelConfig(
        num_classes=4,
        image_size=(SIDE, SIDE),
        view={"scale": SCALE},
        selection={"name": "perturbed", "k": 4, "sigma": SIGMA, "num_samples": 100},
        extraction={"patch": 160},
        features={"name": "thin"},
        aggregation={"name": "max"},
    )
    return PatchSelectionModel(config)


def warm_up(model: PatchSelectionModel, batch: Batch) -> None:
    """The scorer learns where detail is missing."""
    view = model.view(batch.image)
    target = missing_detail(batch.image, view, model.grid(batch.image.shape[-2:]))
    warm_up_loss(model.scorer(view).scores, target).backward()


def learn(model: PatchSelectionModel, batch: Batch) -> None:
    """A step of training with labels."""
    output = model.train()(batch.image)
    support = output.selection.index.shape[1]
    model.loss(output, batch.label).backward()
    print(f"{support} of {output.scores.shape[1]} candidates in the support", flush=True)


def answer(model: PatchSelectionModel, batch: Batch) -> None:
    """A batch of validation."""
    with torch.no_grad():
        model.eval()(batch.image)


STEPS = {"warm-up": warm_up, "training": learn, "evaluation": answer}


def prepare(name: str, folder: Path) -> Callable[[], None]:
    """The step, from files to gradients. For training the scorer has learnt a little, as it has after a warm-up."""
    dataset = read_slides(folder)
    model = make_model()
    if name == "training":
        optimiser = torch.optim.Adam(model.scorer.parameters(), 3e-3)
        for _ in range(WARM_UPS):
            optimiser.zero_grad()
            warm_up(model, collate_sources([dataset[number] for number in range(BATCH)], scale=SCALE))
            optimiser.step()
    return lambda: STEPS[name](model, collate_sources([dataset[number] for number in range(BATCH)], scale=SCALE))


def timed(step: Callable[[], None]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_slides(folder)
        rows = []
        for step in STEPS:
            print(f"{step} …", flush=True)
            taken = timed(prepare(step, folder))
            memory = extra_peak_mb_elsewhere(__file__, f"{step}|{folder}")
            rows.append([step, f"{taken:.1f}", f"{memory:,.0f}"])
        size = BATCH * 3 * SIDE**2 / 2**20
        rows.append(["the batch as bytes", "", f"({size:,.0f})"])
        rows.append(["the batch as floats", "", f"({4 * size:,.0f})"])
        print_table(f"A batch of {BATCH} images of {SIDE:,}² px", ["", "s", "extra MB"], rows)


if __name__ == "__main__":
    if case := memory_case():
        step, folder = case.split("|")
        # With the warm-up before it: memory that was freed there would not be counted a second time.
        print(extra_peak_mb(lambda: prepare(step, Path(folder))()))
    else:
        main()
