"""Images per second of `saccade predict --ray` against plain processes, and what is lost to Ray.

OMP_NUM_THREADS=1 python benchmarks/bench_ray.py [--processes 1 2] [--rounds 3]

The model is that of `bench_predict.py`, on one thread, with nobody reading ahead, so a process has one core:

    plain   processes with the very same `Worker`, each with its share of the images from the start
    ray     workers on a cluster of this machine; this process deals shards out and writes the lines down

Time counts from the moment when all are at work, models loaded, until the last line is there. Both ways have their turn
in every round, and the best round of each counts: other work on the machine only takes away.
"""

import argparse
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench_predict import make_model, write_photos
from measure import print_table
from PIL import Image

from saccade.cli.memory import keep_freed_memory
from saccade.cluster import connected
from saccade.predict.line_formats import JsonLines
from saccade.predict.on_ray import Dealer, Team
from saccade.predict.ray_worker import Question, Worker
from saccade.predict.shard_queue import ShardQueue
from saccade.predict.shards import ImageList

LARGE, SMALL = 24, 400  # how many images
SMALL_SIZE = (640, 480)


def write_small(photos: list[Path], folder: Path) -> list[Path]:
    """The same photographs, as thumbnails of them are sent over the web."""
    folder.mkdir()
    for number in range(SMALL):
        with Image.open(photos[number % len(photos)]) as image:
            image.draft("RGB", SMALL_SIZE)
            image.resize(SMALL_SIZE).save(folder / f"{number:04d}.jpg", quality=90)
    return sorted(folder.iterdir())


def _plain_process(question: Question, names: list[str], out: Path, begin: Any, spans: Any) -> None:
    worker = Worker(question)
    for _ in worker.answer(names[:1]):  # its reader has started, too
        pass
    begin.wait()
    start = time.monotonic()
    with out.open("w") as file:
        for lines in worker.answer(names):
            file.writelines(line.text for line in lines)
    spans.put((start, time.monotonic()))


def plain(question: Question, names: list[str], processes: int, folder: Path) -> float:
    """Images per second."""
    context = multiprocessing.get_context("spawn")
    begin, spans = context.Barrier(processes), context.Queue()
    jobs = [
        context.Process(
            target=_plain_process, args=(question, names[number::processes], folder / f"{number}.jsonl", begin, spans)
        )
        for number in range(processes)
    ]
    for job in jobs:
        job.start()
    times = [spans.get() for _ in jobs]
    for job in jobs:
        job.join()
    return len(names) / (max(end for _, end in times) - min(start for start, _ in times))


def on_ray(question: Question, names: list[str], processes: int, folder: Path) -> float:
    """Images per second, from the first line of the last worker that is ready."""
    queue = ShardQueue(folder / "out.jsonl", ImageList.of(names), iter(names), workers=processes, resumes=False)
    dealer = Dealer(question, Team(processes, 1, 0), queue)
    size = len(names) / len(queue.shards)
    place = {name: number for number, name in enumerate(names)}
    begun: set[int] = set()
    start, now, before, count = 0.0, 0.0, 0, 0
    for line in dealer.lines():
        count += 1
        begun.add(int(place[line.image] / size))
        now = time.monotonic()
        if not start and len(begun) == processes:
            start, before = now, count
    return (count - before) / (now - start)


def compare(question: Question, paths: list[Path], processes: list[int], rounds: int) -> list[list[str]]:
    """A row for each number of processes."""
    names, rows = [str(path) for path in paths], []
    ways: dict[str, Callable[..., float]] = {"plain": plain, "ray": on_ray}
    for many in processes:
        speeds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, way in ways.items():
                with tempfile.TemporaryDirectory() as folder:
                    speeds[name].append(way(question, names, many, Path(folder)))
        best = {name: max(each) for name, each in speeds.items()}
        print(many, speeds, flush=True)
        rows.append([str(many), *(f"{best[name]:.2f}" for name in ways), f"{1 - best['ray'] / best['plain']:.1%}"])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    if os.environ.get("OMP_NUM_THREADS") != "1":
        parser.error("OMP_NUM_THREADS must be 1: a process is to have one core")
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder, connected("local"):
        (large := Path(folder, "large")).mkdir()
        photos = write_photos(large, LARGE)
        small = write_small(photos, Path(folder, "small"))
        make_model().save_pretrained(Path(folder, "model"))
        question = Question(
            str(Path(folder, "model")), JsonLines, folder, device="cpu", workers=0, begin=keep_freed_memory
        )
        header = ["processes", "plain, images per second", "Ray, images per second", "lost"]
        for paths, size in ((photos, "12 megapixels"), (small, f"{SMALL_SIZE[0]}×{SMALL_SIZE[1]}")):
            rows = compare(question, paths, args.processes, args.rounds)
            print_table(f"{len(paths)} JPEGs of {size}, {args.rounds} rounds", header, rows)


if __name__ == "__main__":
    main()
