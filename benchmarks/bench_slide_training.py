"""Training on slides: the `signs` scene at 20,000², a plate a hundred pixels wide, read in parts.

python benchmarks/bench_slide_training.py

Two of the pyramids of `slides.py` are written to the temporary folder. Each step takes both of them, with
`model.preparation.stream`: it opens the files, reads the views, and goes forward and back. The other side is the same
batch as a tensor, by its size alone.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from measure import extra_peak_mb, extra_peak_mb_elsewhere, memory_case, print_table
from slides import CLASSES, SIDE, write_slides

from saccade.config import ModelConfig
from saccade.data.dataset import Batch, ImageDataset, collate_sources
from saccade.data.records import Record, Records
from saccade.model import PatchSelectionModel
from saccade.preparation import Preparation
from saccade.training.label_free import label_free_loss, missing_detail

BATCH, SCALE, SIGMA, WARM_UPS = 2, 1 / 16, 0.01, 3


def read_slides(folder: Path) -> ImageDataset:
    """The data set of the pyramids in `folder`."""
    classes = tuple(CLASSES.values())
    records = (Record(path, label, "train") for path, label in zip(sorted(folder.glob("*.tif")), classes, strict=True))
    return ImageDataset(Records(folder, classes, tuple(records)), preparation=Preparation(stream=True))


def make_model() -> PatchSelectionModel:
    """A view of 1,250², 24,649 candidates of 160², of which 4 are looked at."""
    torch.manual_seed(0)
    config = ModelConfig(
        num_classes=len(CLASSES),
        image_size=(SIDE, SIDE),
        view={"scale": SCALE},
        selection={"name": "perturbed", "k": 4, "sigma": SIGMA, "num_samples": 100},
        extraction={"patch": 160},
        features={"name": "thin"},
        aggregation={"name": "max"},
    )
    return PatchSelectionModel.from_config(config)


def learn_detail(model: PatchSelectionModel, batch: Batch) -> None:
    """The scorer learns where detail is missing."""
    view = model.view(batch.image)
    target = missing_detail(batch.image, view, model.grid(batch.image.shape[-2:]))
    label_free_loss(model.scorer(view).scores, target).backward()


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


STEPS = {"label-free": learn_detail, "training": learn, "evaluation": answer}


def prepare(name: str, folder: Path) -> Callable[[], None]:
    """The step, from files to gradients. For training the scorer has learnt a little, as after label-free steps."""
    dataset = read_slides(folder)
    model = make_model()
    if name == "training":
        optimizer = torch.optim.Adam(model.get_submodule("scorer").parameters(), 3e-3)
        for _ in range(WARM_UPS):
            optimizer.zero_grad()
            learn_detail(model, collate_sources([dataset[number] for number in range(BATCH)], scale=SCALE))
            optimizer.step()
    return lambda: STEPS[name](model, collate_sources([dataset[number] for number in range(BATCH)], scale=SCALE))


def timed(step: Callable[[], None]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_slides(folder, BATCH)
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
