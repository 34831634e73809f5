"""Does the file say what the model says? Both answer the same images, and the largest difference is told.

Runtimes add in different orders, so two candidates with nearly equal scores may change places. An image with such a tie
among its best, and other boxes than PyTorch's, says nothing about the file: it is left out, and counted.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from saccade.config import ModelConfig
from saccade.data import DataError, load
from saccade.export.program import HardModel
from saccade.images import unit_range
from saccade.predict.reading import LARGE_PX, Reader
from saccade.preparation import Preparation
from saccade.runs import RunFolder

COUNT = 4
TOLERANCE = 1e-4  # relative to 1 + the largest value; float32 through a deep network leaves about 1e-5
TIE = 1e-5  # scores that another order of additions may swap


class Images(NamedTuple):
    """Images to check on, each B 3 H W of one size, and the words that say where they come from."""

    batches: list[Float[Tensor, "B C H W"]]
    source: str


class Check(NamedTuple):
    """The largest difference of each output, how many images were compared, and how many of them were ties."""

    difference: dict[str, float]
    images: int
    ties: int
    source: str


def find_images(run: Path, check: Path | None, *, config: ModelConfig, image_size: tuple[int, int]) -> Images:
    """Those in the folder `check`; else of the run's own data, if it is still there; else random ones."""
    if check is not None:
        images = _read(sorted(check.rglob("*")), config.preparation)
        if not images:
            raise ValueError(f"no image in {check} that this model can take: --check takes a folder of images")
        return Images(images, f"{len(images)} images of {check}")
    if config.channels == 3 and (images := _read(_own_images(run), config.preparation)):
        return Images(images, f"{len(images)} images of the run's own data")
    random = torch.rand(COUNT, 1, config.channels, *image_size, generator=torch.Generator().manual_seed(1))
    return Images(list(random), f"{COUNT} random images: --check FOLDER gives real ones")


def _own_images(run: Path) -> list[Path]:
    """A few images of a run's data, of its test split if it has one; none if there is no run, or no data any more."""
    folder = RunFolder(run)
    data = folder.recipe().get("data", {}) if folder.is_run else {}
    try:
        records = (
            load(data["path"], labels=data.get("labels"), **data.get("options") or {}) if data.get("path") else None
        )
    except (DataError, OSError):  # a model outlives its data; what is checked on is told in any case
        return []
    chosen = records and (records.split("test").records or records.records)
    return [chosen[place].image for place in np.linspace(0, len(chosen) - 1, COUNT).astype(int)] if chosen else []


def _read(paths: Iterable[Path], preparation: Preparation) -> list[Float[Tensor, "1 C H W"]]:
    """The first few, as the model sees them; what is no image, and images too large for memory, are left out."""
    reader = Reader(replace(preparation, max_pixels=LARGE_PX), by_parts=False)
    images: list[Tensor] = []
    for path in dict.fromkeys(paths):
        try:
            pixels = reader(path).pixels
            assert isinstance(pixels, Tensor)
            images.append(preparation.see(unit_range(pixels[None])))
        except (ValueError, OSError):
            continue
        if len(images) == COUNT:
            break
    return images


def vary(images: Sequence[Tensor], fixed: dict[str, int]) -> list[Tensor]:
    """The images as the file takes them: in twos and cut to another size where it is free, resized where it is not."""
    size = fixed.get("height"), fixed.get("width")
    batches = []
    for number, image in enumerate(images):
        height, width = (side or now for side, now in zip(size, image.shape[-2:], strict=True))
        if (height, width) != tuple(image.shape[-2:]):
            image = F.interpolate(image, size=(height, width), mode="bilinear", antialias=True)
        image = image if "batch" in fixed else torch.cat([image, image.flip(3)])
        batches.append(image)
        if number == 0 and not fixed.keys() & {"height", "width"}:
            batches.append(image[:1, :, : height - height // 9, : width - width // 7])
    return [batch.contiguous() for batch in batches]


@torch.no_grad()
def compare(
    model: HardModel, run: Callable[[np.ndarray], Sequence[np.ndarray]], images: Images, outputs: Sequence[str]
) -> Check:
    """The largest differences between `model` and a file; `ValueError` where they are too large."""
    difference, ties, count = dict.fromkeys(outputs, 0.0), 0, 0
    for batch in images.batches:
        expected = dict(zip(outputs, (output.numpy() for output in model(batch)), strict=True))
        got = dict(zip(outputs, run(batch.numpy()), strict=True))
        tied = _moved(expected, got) & (model.margin(batch) < TIE).numpy()  # B
        ties, count = ties + int(tied.sum()), count + len(tied)
        for name in outputs:
            difference[name] = max(difference[name], _largest(expected[name], got[name], ~tied))
    if ties == count:
        raise ValueError(
            f"checked on {images.source}, and all of them have candidates of equal scores: check on others "
            "(--check FOLDER)"
        )
    if bad := [f"{name} by {value:.2g}" for name, value in difference.items() if not value <= TOLERANCE]:
        raise ValueError(
            f"the exported model differs from PyTorch on {images.source}, relative to 1 + the largest value: "
            f"{', '.join(bad)}; nothing was written"
        )
    return Check(difference, count, ties, images.source)


def _moved(expected: dict[str, np.ndarray], got: dict[str, np.ndarray]) -> np.ndarray:
    """Which images have other boxes."""
    if "boxes" not in expected or expected["boxes"].shape != got["boxes"].shape:
        return np.zeros(len(expected["logits"]), dtype=bool)
    return (expected["boxes"] != got["boxes"]).any(axis=(1, 2))


def _largest(expected: np.ndarray, got: np.ndarray, rows: np.ndarray) -> float:
    if expected.shape != got.shape:
        return float("inf")
    if not rows.any():
        return 0.0
    largest = np.abs(expected[rows].astype(np.float64) - got[rows]).max(initial=0.0)
    if np.issubdtype(expected.dtype, np.integer):  # pixels are the same or they are not
        return float(largest)
    return float(largest / (1 + np.abs(expected[rows]).max(initial=0.0)))
