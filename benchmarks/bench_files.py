"""Ordinary files: whole by several decoders; the view and ten regions of a large one; the loader of training.

python benchmarks/bench_files.py

Takes about three minutes. All ratios are of the processor's seconds of one thread, in turn in one process, the best of
several, so that a busy machine spoils none. Pictures are soft blotches with a little noise, 0.3 bytes a pixel as
JPEG. "Memory" is the peak of a fresh process over what it held before, without the view and the regions
themselves, as a share of the whole image as floats. libvips is measured where pyvips is installed.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import simplejpeg
import torch
from bench_images import make_texture, write_jpegs
from measure import extra_peak_mb, extra_peak_mb_elsewhere, memory_case, print_table, processor_seconds
from PIL import Image
from torch.utils.data import DataLoader
from torchvision.io import ImageReadMode, decode_image

from saccade.cli.memory import keep_freed_memory
from saccade.data.dataset import ImageDataset, collate
from saccade.data.records import Records
from saccade.images import FileImage, decode

FILES = {"24 MP JPEG": ("24.jpg", (4000, 6000)), "200 MP JPEG": ("200.jpg", (12000, 16667))}
FILES |= {"24 MP PNG": ("24.png", (4000, 6000))}
SCALES, REGIONS, REGION = (1 / 8, 1 / 3), 10, 300
ROUNDS, BATCH, WORKERS = 5, 8, 2
Steps = dict[str, Callable[[], object]]


def write(path: Path, size: tuple[int, int]) -> Path:
    picture = Image.fromarray(make_texture(*(-(-side // 16) * 16 for side in size))[: size[0], : size[1]])
    picture.save(path, quality=95)  # which PNG knows nothing of
    return path


def with_pillow(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB"))


def with_vips(path: Path) -> np.ndarray:
    import pyvips  # type: ignore[reportMissingImports]

    return pyvips.Image.new_from_file(str(path), access="sequential").numpy()


def decoders(path: Path) -> Steps:
    """Ways to decode a file whole; the first is what the others are measured by."""
    Image.MAX_IMAGE_PIXELS = None
    data = path.read_bytes()
    raw = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    steps: Steps = {"simplejpeg": lambda: simplejpeg.decode_jpeg(data)} if path.suffix == ".jpg" else {}
    steps |= {"Pillow": lambda: with_pillow(path), "torchvision": lambda: decode_image(raw, ImageReadMode.RGB)}
    try:
        with_vips(path)
    except ImportError:
        return steps
    return steps | {"libvips": lambda: with_vips(path)}


def look(path: Path, scale: float) -> float:
    """What a model needs of an image, its view and ten regions: how many megabytes those are."""
    source = FileImage(path)
    height, width = source.size
    generator = torch.Generator().manual_seed(0)
    top, left = (torch.randint(side - REGION, (REGIONS,), generator=generator) for side in (height, width))
    view = source.view(scale)
    regions = source.regions(torch.stack([left, top, left + REGION, top + REGION], dim=1))
    return (view.nbytes + regions.nbytes) / 2**20


def extra_mb(path: Path, scale: float) -> float:
    """What is held at the peak beside what was asked for."""
    asked: list[float] = []
    return extra_peak_mb(lambda: asked.append(look(path, scale))) - asked[0]


def compare(name: str, path: Path) -> Iterator[list[str]]:
    """Every decoder, and Saccade."""
    looks = {f"view at 1/{1 / scale:.0f} and {REGIONS} regions": scale for scale in SCALES}
    steps = decoders(path) | {title: lambda scale=scale: look(path, scale) for title, scale in looks.items()}
    seconds = processor_seconds(steps, rounds=ROUNDS if path.name != "200.jpg" else 3)
    base, floats_mb = next(iter(seconds.values())), 12 * np.prod(FILES[name][1]) / 2**20
    for title, value in seconds.items():
        memory = extra_peak_mb_elsewhere(__file__, f"{path}|{looks[title]}") / floats_mb if title in looks else None
        yield [name, title, f"{value:.3f}", f"{value / base:.2f}", "" if memory is None else f"{memory:.2f}"]


@contextmanager
def only_pillow() -> Iterator[None]:
    """What the loader was with Pillow alone."""
    kept, decode.decode_jpeg = decode.decode_jpeg, lambda path, stored: False
    try:
        yield
    finally:
        decode.decode_jpeg = kept


def load(records: Records) -> float:
    """Images per second of a second round: processes are forked in the first."""
    loader = DataLoader(ImageDataset(records), BATCH, num_workers=WORKERS, collate_fn=collate, persistent_workers=True)
    for _ in loader:
        pass
    start = time.perf_counter()
    count = sum(len(batch.index) for batch in loader)
    return count / (time.perf_counter() - start)


def load_with_pillow(records: Records) -> float:
    with only_pillow():
        return load(records)


def main() -> None:
    torch.set_num_threads(1)
    keep_freed_memory()  # as training does
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for name, (file, size) in FILES.items():
            rows += compare(name, write(Path(folder, file), size))
        print_table(
            "A file whole, and what a model needs of it", ["file", "what", "s", "ratio", "memory / floats"], rows
        )
    with tempfile.TemporaryDirectory() as folder:
        records = write_jpegs(Path(folder))
        pairs = [(load_with_pillow(records), load(records)) for _ in range(ROUNDS)]
        before, now = (max(speeds) for speeds in zip(*pairs, strict=True))
        rows = [["Pillow", f"{before:.0f}", "1.00"], ["libjpeg-turbo", f"{now:.0f}", f"{now / before:.2f}"]]
        title = f"ImageDataset, JPEGs of 960×1280, {WORKERS} workers"
        print_table(title, ["decoder", "images per second", "ratio"], rows)


if __name__ == "__main__":
    if case := memory_case():
        path, scale = case.split("|")
        print(extra_mb(Path(path), float(scale)))
    else:
        main()
