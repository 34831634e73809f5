"""A tiny untrained model behind the application, pictures to send to it, and a predictor that waits to be told."""

import threading
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
import torch
from PIL import Image

from saccade import ModelConfig, PatchSelectionModel
from saccade.predict import Predictor

CLASSES = ("cat", "dog", "<b>bird</b>")


def save_tiny_model(folder: Path) -> Path:
    torch.manual_seed(0)
    config = ModelConfig(
        num_classes=3,
        image_size=(96, 128),
        view={"scale": 0.25},
        scorer={"name": "conv", "widths": [4], "pool": 2},
        selection={"name": "hard", "k": 3},
        extraction={"patch": 24},
        features={"name": "ats", "width": 8},
        classes=CLASSES,
    )
    PatchSelectionModel.from_config(config).save_pretrained(folder)
    return folder


class WaitingPredictor(Predictor):
    """Looks only once it is told to; `begun` says that somebody asked."""

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        self.begun, self.go = threading.Event(), threading.Event()

    def answer(self, *args: Any, **options: Any) -> Any:
        self.begun.set()
        assert self.go.wait(60)
        return super().answer(*args, **options)


def scene(height: int = 96, width: int = 128, seed: int = 0) -> np.ndarray:
    """Smooth colors with a few bright squares: something JPEG and halving change little."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(40, 180, (6, 8, 3), dtype=np.uint8)
    pixels = np.array(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))
    for _ in range(4):
        y, x = int(rng.integers(height - 16)), int(rng.integers(width - 16))
        pixels[y : y + 16, x : x + 16] = rng.integers(0, 256, 3, dtype=np.uint8)
    return pixels


def as_png(pixels: np.ndarray) -> bytes:
    file = BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def as_pyramid(pixels: np.ndarray, halvings: tuple[int, ...] = (1, 2)) -> bytes:
    """A tiled TIFF whose coarser levels are the picture halved so many times each."""
    file, options = BytesIO(), {"tile": (64, 64), "compression": "deflate", "photometric": "rgb"}
    with tifffile.TiffWriter(file) as tiff:
        tiff.write(pixels, subifds=len(halvings), **options)
        for times in halvings:
            level = np.asarray(Image.fromarray(pixels).reduce(2**times))
            tiff.write(level, subfiletype=1, **options)
    return file.getvalue()


def as_pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(BytesIO(data)))
