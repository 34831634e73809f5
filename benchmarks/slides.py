"""Slides to train on: the `signs` scene at 20,000², in it at full resolution a plate a hundred pixels wide.

python benchmarks/slides.py FOLDER [--count 200]

Each is a tiled pyramid with JPEG tiles, as slide scanners write them. A street scene made eighty times larger is the
background, one of eight; the plate, at a place of its own, is a speed limit of 80 or something that looks like one
(with a black rim where the scene it is cut from ends above it).
`labels.csv` has the two classes, the splits and the plate's box.
"""

import argparse
import csv
import io
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image
from pyramids import TILE, write_pyramid

from saccade.data.rendering.box import Box
from saccade.data.rendering.sign_plates import plate_box
from saccade.data.rendering.street_scene import render
from saccade.data.signs import draw_scene, label_of

SIDE, SMALL, SIGN_PX, MARGIN_PX = 20_000, 250, (96, 110), 20
BACKGROUNDS = 8
CLASSES = {"80": "limit", "EMPTY": "lookalike"}
SPLITS = ("train", "train", "train", "val", "test")  # of ten consecutive slides, in pairs of the two classes


class Slide:
    """The scene with the plate of picture `index`: tiles of any level of it."""

    def __init__(self, index: int):
        self.background = index % BACKGROUNDS
        close = draw_scene(index, seed=0, sign_px=SIGN_PX)
        plate = plate_box(close.camera, close.plates[0])
        around = plate.left - MARGIN_PX, plate.top - MARGIN_PX, plate.right + MARGIN_PX, plate.bottom + MARGIN_PX
        self.plate = render(close).crop(around)
        self.left, self.top = np.random.default_rng(index).integers(TILE, SIDE - TILE, 2).tolist()
        left, top = self.left + MARGIN_PX, self.top + MARGIN_PX
        self.box = Box(left, top, left + plate.right - plate.left, top + plate.bottom - plate.top)

    def tile(self, side: int, top: int, left: int) -> bytes:
        """A tile of the level of `side`² pixels, as a JPEG."""
        scale = side / SIDE
        width, height = (max(round(length * scale), 1) for length in self.plate.size)
        x, y = round(self.left * scale) - left, round(self.top * scale) - top
        if x >= TILE or y >= TILE or x + width <= 0 or y + height <= 0:
            return _background_jpeg(self.background, side, top, left)
        tile = _background_tile(self.background, side, top, left)
        tile.paste(self.plate.resize((width, height)), (x, y))
        return _jpeg(tile)


@cache
def _scene(background: int) -> Image.Image:
    return render(draw_scene(background, seed=0, size=(SMALL, SMALL)))


def _background_tile(background: int, side: int, top: int, left: int) -> Image.Image:
    small = SMALL / side
    part = (left * small, top * small, min((left + TILE) * small, SMALL), min((top + TILE) * small, SMALL))
    size = min(TILE, side - left), min(TILE, side - top)
    tile = Image.new("RGB", (TILE, TILE))
    tile.paste(_scene(background).resize(size, Image.Resampling.BICUBIC, part), (0, 0))
    return tile


@cache
def _background_jpeg(background: int, side: int, top: int, left: int) -> bytes:
    return _jpeg(_background_tile(background, side, top, left))


def _jpeg(tile: Image.Image) -> bytes:
    file = io.BytesIO()
    tile.save(file, "JPEG", quality=90)
    return file.getvalue()


def write_slides(folder: Path, count: int) -> None:
    """`count` pyramids and their manifest; those that are there already are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    indices = (index for index in range(10 * count) if label_of(index, seed=0) in CLASSES)
    lines = [("image", "label", "split", "boxes")]
    for number, index in zip(range(count), indices, strict=False):
        slide, path = Slide(index), folder / f"{number:04}.tif"
        if not path.is_file():
            whole = write_pyramid(path.with_suffix(".part"), SIDE, slide.tile, compression="jpeg")
            whole.rename(path)
        split = SPLITS[number // 2 % len(SPLITS)]
        lines.append((path.name, CLASSES[label_of(index, seed=0)], split, " ".join(map(str, slide.box))))
        print(f"\r{number + 1} of {count} slides", end="", flush=True)
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows(lines)
    print()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write tiled pyramids of 20,000² pixels and their manifest.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=200)
    arguments = parser.parse_args()
    write_slides(arguments.folder, arguments.count)
