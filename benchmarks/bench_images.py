"""A tiled pyramid: a view and ten regions of a 32768² TIFF against all of it; ordinary files are in `bench_files.py`.

python benchmarks/bench_images.py

Takes about three minutes and 3 GB of the temporary folder. Decoding whole is the decoding alone, by tifffile with its
usual number of threads, without the view and the regions.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import tifffile
import torch
from measure import comparison_rows, extra_peak_mb, extra_peak_mb_elsewhere, median_seconds, memory_case, print_table
from PIL import Image

from saccade.data.records import Record, Records
from saccade.images.image_source import open_image

JPEGS, JPEG_SIZE = 96, (960, 1280)
TIFF_SIDE, TILE, SMALLEST_LEVEL = 32768, 512, 1024
TIFF_SCALE, REGIONS, REGION = 1 / 20, 10, 256
WHOLE, PARTS = "decoded whole, as bytes", f"view and {REGIONS} regions"


def make_texture(height: int, width: int) -> np.ndarray:
    """Soft blotches with a little noise, which compress about as photographs do."""
    generator = np.random.default_rng(0)
    coarse = generator.integers(0, 252, (height // 16, width // 16, 3), dtype=np.uint8)
    soft = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
    return np.array(soft).clip(0, 251) + generator.integers(0, 4, (height, width, 3), dtype=np.uint8)


def write_jpegs(folder: Path) -> Records:
    """Crops of one texture, as JPEG of quality 90."""
    height, width = JPEG_SIZE
    texture = make_texture(height + JPEGS, width + JPEGS)
    records = []
    for shift in range(JPEGS):
        path = folder / f"{shift:03d}.jpg"
        Image.fromarray(texture[shift : shift + height, shift : shift + width]).save(path, quality=90)
        records.append(Record(path, "texture", "train"))
    return Records(folder, ("texture",), tuple(records))


def write_tiff(path: Path) -> Path:
    """A deflated pyramid, tile by tile: nothing of its size is ever in memory."""
    texture = make_texture(4 * TILE, 4 * TILE)

    def tiles(side: int) -> Iterator[np.ndarray]:
        generator = np.random.default_rng(side)
        for y, x in generator.integers(0, 3 * TILE, ((side // TILE) ** 2, 2)):
            yield np.ascontiguousarray(texture[y : y + TILE, x : x + TILE])

    with tifffile.TiffWriter(path, bigtiff=True) as tiff:
        side = TIFF_SIDE
        while side >= SMALLEST_LEVEL:
            tiff.write(
                tiles(side),
                shape=(side, side, 3),
                dtype=np.uint8,
                tile=(TILE, TILE),
                photometric="rgb",
                compression="deflate",
                compressionargs={"level": 1},
                predictor=True,
                subfiletype=int(side < TIFF_SIDE),
            )
            side //= 2
    return path


def reading_step(method: str, path: Path) -> Callable[[], object]:
    """The TIFF as bytes; or what a model needs of it."""
    corners = torch.randint(TIFF_SIDE - REGION, (REGIONS, 2), generator=torch.Generator().manual_seed(0))
    boxes = torch.cat([corners, corners + REGION], dim=1)

    def look() -> None:
        source = open_image(path)
        source.view(TIFF_SCALE)
        source.regions(boxes)

    return {WHOLE: lambda: tifffile.imread(path, level=0), PARTS: look}[method]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write_tiff(Path(folder) / "pyramid.tif")
        methods = WHOLE, PARTS
        seconds = {method: median_seconds(reading_step(method, path), repeats=3) for method in methods}
        memory = {method: extra_peak_mb_elsewhere(__file__, f"{method}|{path}") for method in methods}
        rows = comparison_rows(seconds, memory, unit=1, time_digits=2, ratio_digits=0)
        title = (
            f"TIFF {TIFF_SIDE}²×3, deflated tiles of {TILE}², {path.stat().st_size / 1e9:.1f} GB; "
            f"view at 1/{1 / TIFF_SCALE:.0f}, regions of {REGION}²"
        )
        print_table(title, ["method", "s", "speed-up", "extra MB", "memory"], rows)


if __name__ == "__main__":
    if case := memory_case():
        method, path = case.split("|")
        print(extra_peak_mb(reading_step(method, Path(path))))
    else:
        main()
