"""Real servers on loopback: HTTP with all that may go wrong on the way, and S3."""

import threading
import time
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import tifffile

from saccade.places import remote


class Server(ThreadingHTTPServer):
    """Files of a folder, and what was asked for.

    ranges:  whether parts can be asked for.
    trouble: what happens to the next requests with a body, one each: break, slow, 503, 403.
    """

    daemon_threads = True

    def __init__(self, folder: Path):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.ranges, self.trouble = folder, True, list[str]()
        self.sent_bytes, self.asked = 0, list[str]()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address) -> None:
        pass  # a client that had enough


class _Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def __init__(self, request, client_address, server):
        super().__init__(request, client_address, server, directory=str(server.folder))

    def log_message(self, format: str, *args) -> None:
        pass

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        self.server.asked.append(self.path)
        trouble = self.server.trouble.pop(0) if self.server.trouble else ""
        if trouble.isdigit():
            self.send_error(int(trouble))
        elif not path.is_file():
            super().do_GET()
        else:
            self._send(path.read_bytes(), trouble)

    def _send(self, data: bytes, trouble: str) -> None:
        wanted = self.headers.get("Range") if self.server.ranges else None
        if wanted:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last or len(data)) + 1, len(data))
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
            data = data[start:end]
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if trouble == "slow":
            time.sleep(3)
        if trouble == "break":
            data, self.close_connection = data[: len(data) // 2], True
        self.server.sent_bytes += len(data)  # before the client has it, and asks how many there were
        self.wfile.write(data)

    def end_headers(self) -> None:
        self.send_header("Accept-Ranges", "bytes" if self.server.ranges else "none")
        super().end_headers()


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """An empty cache of a gigabyte, and no waiting between attempts."""
    monkeypatch.setenv("SACCADE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SACCADE_CACHE_GB", "1")
    monkeypatch.setattr(remote, "WAIT_S", 0.01)
    return tmp_path / "cache"


@pytest.fixture
def server(tmp_path, cache) -> Iterator[Server]:
    """The folder `served` behind HTTP."""
    (tmp_path / "served").mkdir()
    with Server(tmp_path / "served") as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield served
        served.shutdown()


@pytest.fixture
def slide(server):
    """A tiled TIFF of 16 megapixels in three levels, 20 MB that cannot be compressed."""
    pixels = np.random.default_rng(0).integers(0, 255, (2048, 3072, 3), dtype=np.uint8)
    with tifffile.TiffWriter(server.folder / "slide.tif") as file:
        for step in (1, 2, 4):
            file.write(pixels[::step, ::step], tile=(256, 256), photometric="rgb", subfiletype=int(step > 1))
    return server.folder / "slide.tif"
