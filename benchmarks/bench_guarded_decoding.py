"""What it costs to decode in a process that can be killed: `Guard.read_pixels` against `read_pixels` here.

python benchmarks/bench_guarded_decoding.py

Takes about a minute. Both ways read the same file in turn, so that a busy machine is as unkind to the one as to the
other, and then touch every pixel; the ratio is the median of the pairs. The start is that of a new process, from
nothing to its first image.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
from bench_images import make_texture
from measure import print_table
from PIL import Image

from saccade.images.decode import read_pixels
from saccade.images.guarded import Guard

SIZES = {"1": (1024, 1024), "12": (3072, 4096)}  # megapixels → height, width
PAIRS = 21


def seconds(read: Callable[[Path], np.ndarray], path: Path) -> float:
    start = time.perf_counter()
    read(path).max()
    return time.perf_counter() - start


def start_seconds(path: Path) -> float:
    with Guard() as guard:
        return seconds(guard.read_pixels, path)


def compare(path: Path) -> list[str]:
    with Guard() as guard:
        guard.read_pixels(path)
        pairs = [(seconds(read_pixels, path), seconds(guard.read_pixels, path)) for _ in range(PAIRS)]
    here, there = (1000 * median(times) for times in zip(*pairs, strict=True))
    return [f"{here:.1f}", f"{there:.1f}", f"{median(there / here for here, there in pairs):.2f}"]


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for megapixels, (height, width) in SIZES.items():
            picture = Image.fromarray(make_texture(height, width))
            for suffix in ("jpg", "png"):
                path = Path(folder, f"{megapixels}.{suffix}")
                picture.save(path)
                start = 1000 * median(start_seconds(path) for _ in range(3))
                rows.append([f"{suffix.upper()}, {megapixels} MP", *compare(path), f"{start:.0f}"])
    print_table(
        "Decoding in a process that can be killed", ("file", "here ms", "guarded ms", "ratio", "start ms"), rows
    )


if __name__ == "__main__":
    main()
