"""What an issue report should contain: versions, devices, memory, what is missing, and whether devices agree."""

import os
import platform
import statistics
import time
from collections.abc import Iterator
from copy import deepcopy
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import NamedTuple

import torch
from PIL import features
from torch import Tensor

from saccade.building import build_model
from saccade.config import ModelConfig
from saccade.extras import EXTRAS, how_to_install, missing_from
from saccade.model import PatchSelectionModel
from saccade.runs.run_facts import made_with

CODECS = ("jpg", "libjpeg_turbo", "zlib", "libtiff", "webp", "avif", "jpg_2000")
SIZE, BATCH, STEPS = (480, 640), 2, 5
TOLERANCE = 1e-3  # of float32 answers with other orders of summation, TF32 left out


class Line(NamedTuple):
    """A name, what was found, and whether that is well."""

    name: str
    found: str
    well: bool = True


def examine() -> Iterator[Line]:
    """Line after line, the quick ones first."""
    facts = made_with("auto")
    yield Line("saccade", f"{facts['saccade']}, commit {facts['commit'] or 'unknown'}")
    yield Line("python", f"{facts['python']} on {platform.platform()}")
    for name, number in facts["versions"].items():
        yield Line(name, number)
    yield Line("hardware", f"{facts['hardware']}; torch uses {facts['threads']} threads")
    yield Line("memory", _memory())
    missing = [codec for codec in CODECS if not features.check(codec)]
    yield Line("codecs", f"missing in Pillow: {', '.join(missing)}" if missing else "all of Pillow's that are read")
    yield Line("imagecodecs", _version("imagecodecs") or "not installed; tifffile reads JPEG and LZW tiles with it")
    for extra in EXTRAS:
        absent = missing_from(extra)
        yield Line(f"[{extra}]", f"{', '.join(absent)} missing: {how_to_install(extra)}" if absent else "installed")
    yield from _examine_devices()


def accelerators() -> list[torch.device]:
    """Every device but the processor."""
    found = [torch.device("cuda", number) for number in range(torch.cuda.device_count())]
    return [*found, torch.device("mps")] if torch.backends.mps.is_available() else found


def _examine_devices() -> Iterator[Line]:
    model, images = make_model(), make_images()
    yield Line(
        "step on cpu", f"{step_time(model, images):.0f} ms, {BATCH} images of {SIZE[0]}×{SIZE[1]}, 5 patches of 64²"
    )
    expected = answer(model, images)
    for device in accelerators():
        there, seen = deepcopy(model).to(device), images.to(device)
        free = f", {torch.cuda.mem_get_info(device)[0] / 1e9:.1f} GB free" if device.type == "cuda" else ""
        yield Line(f"step on {device}", f"{step_time(there, seen):.0f} ms{free}")
        given = answer(there, seen)
        difference = (given.logits - expected.logits).abs().max().item()
        alike = torch.equal(given.boxes, expected.boxes) and difference < TOLERANCE
        told = "the processor's answers" if alike else "NOT the processor's answers"
        yield Line(f"answers of {device}", f"{told}: logits differ by {difference:.1e}", alike)
    if not accelerators():
        yield Line("accelerator", "none that torch can use")


class Answer(NamedTuple):
    """Of a batch, on the processor."""

    logits: Tensor
    boxes: Tensor


def make_model() -> PatchSelectionModel:
    """A small model whose answers do not depend on the machine's state."""
    config = ModelConfig(
        num_classes=4,
        image_size=SIZE,
        view={"scale": 0.25},
        selection={"name": "perturbed", "k": 5, "num_samples": 100},
        extraction={"patch": 64},
        features={"name": "thin"},
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = build_model(config)
    assert isinstance(model, PatchSelectionModel)
    return model


def make_images() -> Tensor:
    """The same noise everywhere."""
    return torch.rand(BATCH, 3, *SIZE, generator=torch.Generator().manual_seed(0))


@torch.no_grad()
def answer(model: PatchSelectionModel, images: Tensor) -> Answer:
    """What the model says where it is; it must be where the images are."""
    output = model.eval()(images)
    assert output.boxes is not None
    if output.logits.device.type != images.device.type:
        raise RuntimeError(f"images on {images.device} were answered on {output.logits.device}")
    return Answer(output.logits.cpu(), output.boxes.cpu())


def step_time(model: PatchSelectionModel, images: Tensor) -> float:
    """Milliseconds of a forward and backward pass of a copy, the median of a few after one that warms up."""
    model = deepcopy(model).train()  # running means move
    times = []
    for _ in range(1 + STEPS):
        began = time.perf_counter()
        model(images).logits.sum().backward()
        if images.device.type != "cpu":
            getattr(torch, images.device.type).synchronize()
        times.append(1e3 * (time.perf_counter() - began))
    return statistics.median(times[1:])


def _memory() -> str:
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return "unknown"
    page = os.sysconf("SC_PAGE_SIZE")
    return f"{os.sysconf('SC_PHYS_PAGES') * page / 1e9:.1f} GB"


def _version(package: str) -> str | None:
    try:
        return version(package) if find_spec(package) else None
    except PackageNotFoundError:
        return None
