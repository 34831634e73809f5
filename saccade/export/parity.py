"""Does the file say what the model says? Both answer the same images, and the largest difference is told.

Runtimes add in different orders, so two candidates with nearly equal scores may change places. An image with such a tie
among its best, and other boxes than PyTorch's, says nothing about the file: it is left out, and counted.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from saccade.data.augment import build_augmentation
from saccade.data.dataset import unit_range
from saccade.data.records import DataError
from saccade.export.program import HardModel
from saccade.images.decode import BadImage, read_pixels
from saccade.training.batches import open_records, open_split
from saccade.training.recipe import load_recipe

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


def find_images(run: Path, folder: Path | None, *, image_size: tuple[int, int], channels: int = 3) -> Images:
    """Those in `folder`; else of the run's own data, if it is still there; else random ones."""
    if folder is not None:
        images = list(_read_folder(folder))
        return Images(images, f"{len(images)} images of {folder}")
    if (run / "recipe.yaml").is_file() and channels == 3:
        try:
            images = list(_read_run(run))
            return Images(images, f"{len(images)} images of the run's own data")
        except (DataError, BadImage, OSError):
            pass  # a model outlives its data; what is checked on is told in any case
    random = torch.rand(COUNT, 1, channels, *image_size, generator=torch.Generator().manual_seed(1))
    return Images(list(random), f"{COUNT} random images: --check FOLDER gives real ones")


def _read_folder(folder: Path) -> Iterator[Tensor]:
    found = 0
    for path in sorted(folder.rglob("*")) if folder.is_dir() else []:
        try:
            pixels = torch.from_numpy(read_pixels(path)) if path.is_file() else None
        except BadImage:  # a folder also has other files
            continue
        if pixels is not None:
            pixels = rearrange(pixels, "h w c -> 1 c h w")
            yield unit_range(pixels) if pixels.dtype == torch.uint8 else pixels
            found += 1
        if found == COUNT:
            return
    if not found:
        raise ValueError(f"no image in {folder}: --check takes a folder of images")


def _read_run(run: Path) -> Iterator[Tensor]:
    recipe = load_recipe(run / "recipe.yaml")
    if recipe.model.preparation.stream:
        raise DataError("images that are read in parts do not fit into memory")
    data = replace(recipe.data, generate=None, skip_bad=False)  # nothing is made for a check
    records = open_records(data, seed=recipe.seed)
    split = next(name for name in ("test", "val", "train") if records.split(name).records)
    dataset = open_split(records, split, data)
    augmentation = build_augmentation(recipe.data.augmentation)
    for index in np.linspace(0, len(dataset) - 1, min(COUNT, len(dataset))).astype(int).tolist():
        yield augmentation.evaluation(unit_range(dataset[index].image[None]))


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
