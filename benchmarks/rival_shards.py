"""Images in shards: read one by one in any order, as Saccade does, beside WebDataset's and LitData's streams.

    python benchmarks/rival_shards.py

    files        each image a file in a folder
    saccade      tars by `saccade data shard`, each image taken out by its place into the cache; then out of the cache
    webdataset   the same tars from begin to end, shards shuffled, and images in a buffer of 1000
    litdata      chunks of the same size by `litdata.optimize`, shuffled

Nothing is decoded; bytes are read. Milliseconds are of the processor, one thread, the least of several rounds. "Over
HTTP" is on the clock, with a server on this machine that waits before it answers, as one far away would seem. "Goes on"
is how long the first image takes after a run that had seen half of them is resumed, and whether the rest then comes in
the order in which it would have come. Needs `pip install webdataset litdata`, and curl for WebDataset's HTTP. Takes
about five minutes.
"""

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported

import litdata  # pyright: ignore[reportMissingImports]
import numpy as np
import webdataset as wds  # pyright: ignore[reportMissingImports]
from bench_images import make_texture
from measure import print_table, processor_seconds
from PIL import Image

from saccade.data.loading import load_as_given
from saccade.data.records import Record, Records
from saccade.data.sharding import plan_shards, write_shards
from saccade.images.decode import read_pixels
from saccade.places import fetch_member, members

COUNT, SIZE, SHARD_BYTES, WAIT_S, ROUNDS = 240, (960, 1280), 16_000_000, 0.02, 3
Stream = Iterator[bytes]


def write_images(folder: Path) -> Records:
    height, width = SIZE
    texture = make_texture(height + 256, width + 256)
    records = []
    for number in range(COUNT):
        path = folder / f"{number:04d}.jpg"
        Image.fromarray(texture[number : number + height, number : number + width]).save(path, quality=90)
        records.append(Record(path, ("even", "odd")[number % 2], "train"))
    return Records(folder, ("even", "odd"), tuple(records))


def order() -> list[int]:
    return np.random.default_rng(0).permutation(COUNT).tolist()


def from_files(records: Records, start: int = 0) -> Stream:
    return (records.records[place].image.read_bytes() for place in order()[start:])


def from_shards(records: Records, start: int = 0) -> Stream:
    for place in order()[start:]:
        copy = fetch_member(records.records[place].image)
        assert copy is not None
        yield copy.path.read_bytes()


def from_webdataset(tars: list[str], start: int = 0) -> Stream:
    data = wds.WebDataset(tars, shardshuffle=100, seed=0, empty_check=False).shuffle(1000, seed=0)
    return (sample["jpg"] for sample in islice(data, start, None))


def from_litdata(folder: Path, start: int = 0) -> Stream:
    data = litdata.StreamingDataset(str(folder), shuffle=True, seed=0, drop_last=False)
    loader = litdata.StreamingDataLoader(data, batch_size=1, num_workers=0, collate_fn=lambda samples: samples[0])
    if start:  # as a run that was stopped there would have saved it
        seen = iter(loader)
        for _ in range(start):
            next(seen)
        state = loader.state_dict()
        data = litdata.StreamingDataset(str(folder), shuffle=True, seed=0, drop_last=False)
        loader = litdata.StreamingDataLoader(data, batch_size=1, num_workers=0, collate_fn=lambda samples: samples[0])
        loader.load_state_dict(state)
    return iter(loader)


def write_chunks(folder: Path, out: Path) -> None:
    paths = sorted(str(path) for path in folder.glob("*.jpg"))
    litdata.optimize(_bytes_of, paths, str(out), chunk_bytes=SHARD_BYTES, num_workers=1)


def _bytes_of(path: str) -> bytes:
    return Path(path).read_bytes()


class Slow(SimpleHTTPRequestHandler):
    """Ranges of files, each after a while."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        time.sleep(WAIT_S)
        path, status = Path(self.translate_path(self.path)), 200
        start, end = 0, (total := path.stat().st_size)
        if wanted := self.headers.get("Range"):
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start, end, status = int(first), min(int(last or total) + 1, total), 206
        with path.open("rb") as file:
            file.seek(start)
            data = file.read(end - start)
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{total}")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def drain(stream: Callable[[], Stream]) -> int:
    return sum(map(len, stream()))


def afresh(folder: Path, stream: Callable[[], Stream]) -> int:
    os.environ["SACCADE_CACHE"] = tempfile.mkdtemp(dir=folder)
    members._shard.cache_clear()
    return drain(stream)


def seconds_until(first: Callable[[], Stream]) -> float:
    begin = time.perf_counter()
    next(first())
    return time.perf_counter() - begin


def goes_on(stream: Callable[..., Stream]) -> list[str]:
    rest = list(stream())[COUNT // 2 :]
    members._shard.cache_clear()
    waited = seconds_until(partial(stream, start=COUNT // 2))
    return [f"{1000 * waited:.0f}", "yes" if list(stream(start=COUNT // 2)) == rest else "no"]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("images", "shards", "chunks"):
            (folder / part).mkdir()
        images = write_images(folder / "images")
        list(write_shards(images, folder / "shards", plan_shards(images, SHARD_BYTES)))
        write_chunks(folder / "images", folder / "chunks")
        shards, tars = load_as_given(folder / "shards"), sorted(map(str, (folder / "shards").glob("*.tar")))
        streams = {
            "files": partial(from_files, images),
            "saccade": partial(from_shards, shards),
            "webdataset": partial(from_webdataset, tars),
            "litdata": partial(from_litdata, folder / "chunks"),
        }
        steps: dict[str, Callable[[], object]] = {name: partial(drain, stream) for name, stream in streams.items()}
        steps["saccade"] = partial(afresh, folder, streams["saccade"])
        steps["saccade, from the cache"] = partial(drain, streams["saccade"])
        steps["decoding, for comparison"] = lambda: [read_pixels(each.image) for each in images.records]
        each_ms = {name: 1000 * least / COUNT for name, least in processor_seconds(steps, rounds=ROUNDS).items()}
        http = over_http(folder)
        rows = []
        for name, milliseconds in each_ms.items():
            last = goes_on(streams[name]) if name in streams else ["", ""]
            rows.append([name, f"{milliseconds:.2f}", http.get(name, ""), *last])
        size = sum(record.image.stat().st_size for record in images.records) / COUNT
        print_table(
            f"{COUNT} JPEGs of {SIZE[0]}×{SIZE[1]} px, {size / 1e3:.0f} kB each, in {len(tars)} shards; requests wait "
            f"{1000 * WAIT_S:.0f} ms",
            ["", "ms an image", "over HTTP, ms an image", "goes on after, ms", "in the same order"],
            rows,
        )


def over_http(folder: Path) -> dict[str, str]:
    """Milliseconds of an image, one at a time."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Slow, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/shards"
        tars = [f"{url}/{path.name}" for path in sorted((folder / "shards").glob("*.tar"))]
        begin = time.perf_counter()
        afresh(folder, lambda: from_shards(load_as_given(url)))
        saccade, begin = time.perf_counter() - begin, time.perf_counter()
        drain(lambda: from_webdataset(tars))
        webdataset = time.perf_counter() - begin
        server.shutdown()
    return {name: f"{1000 * s / COUNT:.0f}" for name, s in (("saccade", saccade), ("webdataset", webdataset))}


if __name__ == "__main__":
    main()
