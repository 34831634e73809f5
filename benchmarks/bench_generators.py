"""Generators: images per second in one process, and through `make` with two workers, from start to finished folder.

python benchmarks/bench_generators.py

The goals are 15 street scenes of 480×640 per second and core, and 10 tables of 1000² per second on two cores.
Of Megapixel MNIST the reading is measured, a canvas drawn from its file; set SACCADE_DATA to the folder of `mnist`.
"""

import os
import tempfile
import time
from pathlib import Path

from measure import median_seconds, print_table

from saccade.data import billiard_render, signs
from saccade.data.generate import make
from saccade.data.megapixel_mnist import MegapixelMNIST

COUNT, WORKERS = {"signs": 400, "billiard": 300}, 2
MODULES = {"signs": signs, "billiard": billiard_render}
CANVASES = 120


def one_process(name: str, *, count: int = 60) -> float:
    """Images per second after every cache is warm."""
    files = MODULES[name].files
    for index in range(count):
        files(index, seed=0)
    start = time.perf_counter()
    for index in range(count, 2 * count):
        files(index, seed=0)
    return count / (time.perf_counter() - start)


def two_workers(name: str) -> float:
    """Images per second of a whole run, the start of the processes included."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        make(name, Path(folder) / name, count=COUNT[name], workers=WORKERS)
        return COUNT[name] / (time.perf_counter() - start)


def canvases(source: Path) -> tuple[str, str, str, str]:
    with tempfile.TemporaryDirectory() as folder:
        out = make("megapixel-mnist", Path(folder) / "canvases", count=CANVASES, workers=1, source=source)
        data = MegapixelMNIST(out, "test")
        size_kb = sum(path.stat().st_size for path in data.files) / len(data) / 1024
        seconds = median_seconds(lambda: [data[k].image.amax() for k in range(len(data))]) / len(data)
    return "megapixel-mnist, read", "1500×1500", f"{1 / seconds:.0f}", f"{size_kb:.1f} KB a canvas"


def main() -> None:
    rows = []
    for name, module in MODULES.items():
        height, width = module.SIZE
        rows.append((name, f"{height}×{width}", f"{one_process(name):.1f}", f"{two_workers(name):.1f}"))
    source = Path(os.environ.get("SACCADE_DATA", Path(__file__).parents[2] / "shared" / "data")) / "mnist"
    if source.is_dir():
        rows.append(canvases(source))
    else:
        print(f"no MNIST at {source}: set SACCADE_DATA to the folder that holds it")
    print_table("Generators, images per second", ("set", "size", "one process", f"make, {WORKERS} workers"), rows)


if __name__ == "__main__":
    main()
