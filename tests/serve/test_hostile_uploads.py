"""Small files that take much, sent to a server: answered in time, in little memory, and the next one too."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi.testclient import TestClient
from served import as_png, scene

from saccade.images.guarded import SUPPORTED
from saccade.serve import Limits, create_app
from tests.hostile.bombs import BOMBS, WITHIN_LIMITS, jpeg_of_many_scans, png

pytestmark = pytest.mark.skipif(
    not SUPPORTED, reason="without a process that can be killed nothing of this is promised"
)

ROOT = Path(__file__).parents[2]
NEXT_S, PEAK_BYTES, TIMEOUT_S = 5, 2e9, 60
HARMLESS = {"ome_planes.tif": 200, "imagej_planes.tif": 200, "scanimage_planes.tif": 200}  # one small picture each
EXPECTED = dict.fromkeys(BOMBS, 413) | dict.fromkeys(("icon.ico", "icon_called_png.png", "apple.icns"), 415) | HARMLESS


def post(client: httpx.Client, data: bytes) -> tuple[int, float]:
    begin = time.monotonic()
    status = client.post("/api/predict", files={"file": ("a", data)}).status_code
    return status, time.monotonic() - begin


@pytest.fixture(scope="module")
def client(predictor) -> Iterator[TestClient]:
    with TestClient(create_app(predictor, name="tiny", limits=Limits(timeout_s=TIMEOUT_S))) as client:
        yield client


@pytest.mark.parametrize("name", BOMBS)
def test_bomb_is_refused_and_the_next_image_answered(client, name, tmp_path):
    # What is late gets another status. How soon they come is measured where nothing else runs: see the slow tests.
    BOMBS[name](tmp_path / name)
    assert post(client, (tmp_path / name).read_bytes())[0] == EXPECTED[name]
    assert post(client, as_png(scene()))[0] == 200


def test_decoding_that_is_late_is_stopped_and_the_next_image_answered(predictor):
    slow = png(9_900, 9_900)
    with TestClient(create_app(predictor, name="tiny", limits=Limits(timeout_s=TIMEOUT_S))) as client:
        assert post(client, as_png(scene()))[0] == 200  # the process that decodes has started
        service = client.app.state.service  # type: ignore[attr-defined]
        service.limits = Limits(timeout_s=0.3)
        assert post(client, slow)[0] == 504
        service.limits = Limits(timeout_s=TIMEOUT_S)
        assert post(client, as_png(scene()))[0] == 200


class Served:
    """A real server, whose memory and that of its processes is watched: shared pages are counted once."""

    def __init__(self, model: Path, timeout_s: float):
        words = [sys.executable, "-m", "saccade.cli", "serve", str(model), "--port", "0", "--timeout", str(timeout_s)]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env)
        assert self.process.stdout
        found = re.search(r"http://\S+", self.process.stdout.readline())
        assert found
        self.client = httpx.Client(base_url=found[0], timeout=timeout_s + 20)
        self.peak_bytes = 0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while self.process.poll() is None:
            self.peak_bytes = max(self.peak_bytes, sum(map(_memory, self._processes())))
            time.sleep(0.05)

    def _processes(self) -> list[int]:
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [self.process.pid, *(int(child) for task in tasks for child in _read(task).split())]

    def end(self) -> float:
        """SIGTERM, and the seconds until it is no more."""
        begin = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(120)
        return time.monotonic() - begin


def _memory(pid: int) -> int:
    found = re.search(r"^Pss:\s+(\d+)", _read(Path(f"/proc/{pid}/smaps_rollup")), re.MULTILINE)
    return 1000 * int(found[1]) if found else 0


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # it has ended meanwhile
        return ""


@pytest.mark.slow
def test_server_stays_small_and_answers_whatever_is_sent(model_folder, tmp_path):
    served = Served(model_folder, TIMEOUT_S)
    try:
        for name, make in {**BOMBS, **{f"within_{name}": make for name, make in WITHIN_LIMITS.items()}}.items():
            make(tmp_path / name)
            served.peak_bytes = 0
            status, seconds = post(served.client, (tmp_path / name).read_bytes())
            again, soon = post(served.client, as_png(scene()))
            print(f"{name}: {status} in {seconds:.1f} s, {served.peak_bytes / 1e9:.2f} GB; the next {soon:.1f} s")
            assert status in (200, 413, 415, 504), name
            assert seconds < TIMEOUT_S + 1, name
            assert (again, soon < NEXT_S) == (200, True), name
            assert served.peak_bytes < PEAK_BYTES, name
    finally:
        assert served.end() < 5


@pytest.mark.slow
def test_server_ends_although_somebody_sends_what_takes_long(model_folder):
    timeout_s = 8.0
    served = Served(model_folder, timeout_s)
    assert post(served.client, as_png(scene()))[0] == 200
    bodies = [png(9_900, 9_900), jpeg_of_many_scans(90, side=9_900)]
    senders = [threading.Thread(target=_send_and_forget, args=(served.client, body)) for body in bodies]
    for sender in senders:
        sender.start()
    time.sleep(1)
    health = served.client.get("/api/health").json()
    assert health["busy_s"] > 0
    assert served.end() < timeout_s + 5
    for sender in senders:
        sender.join()


def _send_and_forget(client: httpx.Client, body: bytes) -> None:
    try:
        post(client, body)
    except httpx.HTTPError:  # the server is gone
        return
