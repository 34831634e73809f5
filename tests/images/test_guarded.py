"""Reading in a process that can be killed: the same pixels, and one clear error for whatever goes wrong there."""

import os
import pickle
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image
from torch.testing import assert_close

from saccade.images import (
    BadImage,
    Fault,
    FileImage,
    Guard,
    NotASlideError,
    SlideImage,
    guarded,
    open_file,
    shared_memory,
)
from saccade.images.decode import read_pixels
from saccade.images.guarded import Limits
from tests.hostile.bombs import png

pytestmark = pytest.mark.skipif(not guarded.SUPPORTED, reason="guards need Linux")

PIXELS = np.random.default_rng(0).integers(0, 256, (300, 400, 3), dtype=np.uint8)


@pytest.fixture
def guard():
    with Guard() as guard:
        yield guard


@pytest.fixture
def photo(tmp_path) -> Path:
    Image.fromarray(PIXELS).save(tmp_path / "photo.jpg")
    return tmp_path / "photo.jpg"


def pid(guard: Guard) -> int:
    assert guard._worker
    return guard._worker._process.pid


def test_files_and_slides_read_the_same_there(guard, photo, tmp_path):
    tifffile.imwrite(tmp_path / "deep.tif", PIXELS.astype(np.uint16) * 257, photometric="rgb")
    for path in (photo, tmp_path / "deep.tif"):
        pixels = guard.read_pixels(path)
        assert np.array_equal(pixels, read_pixels(path))
        assert pixels.dtype == read_pixels(path).dtype
    boxes = torch.tensor([[10, 20, 60, 50], [-10, -10, 40, 20]])
    for scale in (1 / 4, 1 / 2):
        assert_close(FileImage(photo, guard=guard).view(scale), FileImage(photo).view(scale))
    assert_close(FileImage(photo, guard=guard).regions(boxes), FileImage(photo).regions(boxes))
    tifffile.imwrite(tmp_path / "slide.tif", PIXELS, tile=(32, 32), photometric="rgb", compression="deflate")
    there = SlideImage(tmp_path / "slide.tif", guard=guard, single_file=True)
    here = SlideImage(tmp_path / "slide.tif")
    assert there.size == here.size
    assert_close(there.view(1 / 3), here.view(1 / 3))
    assert_close(there.regions(boxes), here.regions(boxes))
    with pytest.raises(NotASlideError, match="no slide"):
        SlideImage(photo, guard=guard, single_file=True)


def test_a_file_is_opened_as_what_it_is(guard, photo, tmp_path):
    tifffile.imwrite(tmp_path / "slide.tif", PIXELS, tile=(32, 32), photometric="rgb")
    (tmp_path / "text.jpg").write_text("dear diary")
    opened = [open_file(path, single_file=True, guard=guard) for path in (photo, tmp_path / "slide.tif")]
    assert [type(source) for source in opened] == [FileImage, SlideImage]
    assert all(source.guard is guard and source.size == (300, 400) for source in opened)
    assert guard.header_size(photo) == (300, 400)
    assert guard.header_size(tmp_path / "text.jpg") is None
    os.mkfifo(tmp_path / "pipe.jpg")
    with pytest.raises(BadImage, match=r"pipe\.jpg: a pipe"):
        open_file(tmp_path / "pipe.jpg", guard=guard)


def test_pixels_outlive_the_process_and_the_next_request(guard, photo, tmp_path):
    first = guard.read_pixels(photo)
    Image.new("RGB", (400, 300)).save(tmp_path / "black.png")
    second = guard.read_pixels(tmp_path / "black.png")
    guard.close()
    assert not second.any()
    assert np.array_equal(first, read_pixels(photo))
    first[:] = 0  # and they are the caller's own


def shared_bytes(guard: Guard) -> list[int]:
    """Of the pieces of memory that its process has for pixels."""
    files = Path(f"/proc/{pid(guard)}/fd").iterdir()
    return [file.stat().st_size for file in files if "memfd:pixels" in os.readlink(file)]


def test_memory_is_used_again_once_nobody_has_its_pixels(guard, photo):
    held = [guard.read_pixels(photo) for _ in range(3)]
    assert shared_bytes(guard) == [held[0].nbytes] * 3
    part = torch.from_numpy(held[1])[5:, 7:].permute(2, 0, 1)  # whatever is made of them holds them
    expected = part.clone()
    del held
    for _ in range(5):
        pixels = guard.read_pixels(photo)
        pixels[:] = 0
    assert len(shared_bytes(guard)) <= 3
    assert torch.equal(part, expected)


def test_bad_files_leave_nothing_behind(guard, tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (200, 200, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "cut.jpg")
    (tmp_path / "cut.jpg").write_bytes((tmp_path / "cut.jpg").read_bytes()[:9_000])
    for _ in range(5):
        with pytest.raises(BadImage, match="truncated"):
            guard.read_pixels(tmp_path / "cut.jpg")
    assert len(shared_bytes(guard)) <= 2  # of the last one, until the next request


def test_large_pictures_keep_no_memory(guard, photo, tmp_path):
    side = 6_800
    (tmp_path / "large.png").write_bytes(png(side, side, color=0))
    pixels = guard.read_pixels(tmp_path / "large.png")
    assert pixels.nbytes == 3 * side**2 > shared_memory.KEPT_BYTES
    assert np.array_equal(guard.read_pixels(photo), read_pixels(photo))
    assert not pixels.any()
    del pixels
    guard.read_pixels(photo)
    assert sum(shared_bytes(guard)) < shared_memory.KEPT_BYTES


def test_the_process_holds_no_torch(guard, photo):
    guard.read_pixels(photo)
    maps = Path(f"/proc/{pid(guard)}/maps").read_text()
    assert "libtorch" not in maps
    assert "PIL" in maps


@pytest.mark.parametrize("name", ["text.jpg", "nowhere.jpg", "cut.png"])
def test_a_bad_file_is_that_files_error_and_not_the_end(guard, photo, tmp_path, name):
    (tmp_path / "text.jpg").write_text("dear diary")
    (tmp_path / "cut.png").write_bytes(png(500, 500)[:300])
    with pytest.raises(BadImage) as here:
        read_pixels(tmp_path / name)
    with pytest.raises(BadImage) as there:
        guard.read_pixels(tmp_path / name)
    assert (str(there.value), there.value.fault) == (str(here.value), here.value.fault)
    assert guard.read_pixels(photo).shape == (300, 400, 3)


def test_what_takes_too_long_is_stopped_and_the_next_file_is_read(photo, tmp_path):
    (tmp_path / "slow.png").write_bytes(png(8_000, 8_000))
    with Guard(Limits(wall_s=0.1)) as guard:
        with pytest.raises(BadImage, match=r"slow\.png: reading it took longer than 0\.1 s") as caught:
            guard.read_pixels(tmp_path / "slow.png")
        assert caught.value.fault is Fault.SLOW
        guard.limits = Limits()
        assert guard.read_pixels(photo).shape == (300, 400, 3)


@pytest.mark.slow
def test_the_processors_time_is_limited_too(photo, tmp_path):
    (tmp_path / "slow.png").write_bytes(png(16_000, 16_000))
    with Guard(Limits(cpu_s=1)) as guard:
        with pytest.raises(BadImage, match="took longer than 1 s"):
            guard.read_pixels(tmp_path / "slow.png")
        assert guard.read_pixels(photo).shape == (300, 400, 3)


def test_a_thread_may_have_one_deadline_for_all_it_asks(guard, photo, tmp_path):
    (tmp_path / "slow.png").write_bytes(png(80, 80))
    guard.read_pixels(photo)
    begin = time.monotonic()
    with guard.until(begin + 2):  # a busy machine may take a while for the first of them
        guard.read_pixels(photo)
        os.kill(pid(guard), signal.SIGSTOP)
        with pytest.raises(BadImage, match=r"slow\.png: reading it took longer") as caught:
            guard.read_pixels(tmp_path / "slow.png")
        with pytest.raises(BadImage, match="there was no time left to read it") as late:
            guard.read_pixels(photo)
    assert caught.value.fault is late.value.fault is Fault.SLOW
    assert 2 <= time.monotonic() - begin < Limits().wall_s
    assert guard.read_pixels(photo).shape == (300, 400, 3)


def test_waiting_for_another_thread_counts(guard, photo):
    guard._turn.acquire()
    with guard.until(time.monotonic() + 0.1), pytest.raises(BadImage, match="no time left"):
        guard.read_pixels(photo)
    guard._turn.release()
    assert guard.read_pixels(photo).shape == (300, 400, 3)


def test_memory_is_limited(photo, tmp_path):
    (tmp_path / "large.png").write_bytes(png(5_000, 5_000))
    with Guard(Limits(memory_bytes=60_000_000)) as guard:
        with pytest.raises(BadImage, match=r"large\.png: there is not enough memory") as caught:
            guard.read_pixels(tmp_path / "large.png")
        assert caught.value.fault is Fault.MEMORY
        assert guard.read_pixels(photo).shape == (300, 400, 3)


@pytest.mark.parametrize("ending", [signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT])
def test_a_reader_that_crashes_is_one_bad_file(guard, photo, tmp_path, ending):
    (tmp_path / "crash.png").write_bytes(png(8_000, 8_000))
    guard.read_pixels(photo)
    # Also one that has crashed before it was asked is no more.
    threading.Timer(0.1, os.kill, (pid(guard), ending)).start()
    with pytest.raises(BadImage, match=rf"crash\.png: damaged: its reader ended \({ending.name}\)"):
        guard.read_pixels(tmp_path / "crash.png")
    assert guard.read_pixels(photo).shape == (300, 400, 3)


def test_whoever_closes_it_is_not_kept_waiting(guard, photo, tmp_path, monkeypatch):
    (tmp_path / "slow.png").write_bytes(png(80, 80))
    guard.read_pixels(photo)
    os.kill(pid(guard), signal.SIGSTOP)  # as long as it takes, it takes longer
    caught, asked, worker = [], threading.Event(), guard._worker
    wait = worker._receive
    monkeypatch.setattr(worker, "_receive", lambda: (asked.set(), wait())[1])

    def read() -> None:
        try:
            guard.read_pixels(tmp_path / "slow.png")
        except BadImage as error:
            caught.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    assert asked.wait(60)
    guard.close()
    reader.join(timeout=30)
    assert not reader.is_alive()
    assert len(caught) == 1


def test_it_travels_as_its_limits_and_a_forked_process_has_its_own(guard, photo):
    first, second = (pickle.loads(pickle.dumps(Guard(Limits(wall_s=3)))) for _ in range(2))
    assert first.limits.wall_s == 3
    assert first is second  # not a process for each image that arrives with one
    guard.read_pixels(photo)
    child = os.fork()
    if child == 0:
        right = guard.read_pixels(photo).shape == (300, 400, 3)
        guard.close()
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert guard.read_pixels(photo).shape == (300, 400, 3)


def test_threads_take_turns(guard, photo, tmp_path):
    Image.new("RGB", (30, 20)).save(tmp_path / "small.png")
    shapes: dict[Path, set] = {photo: set(), tmp_path / "small.png": set()}

    def read(path: Path) -> None:
        for _ in range(20):
            shapes[path].add(guard.read_pixels(path).shape)

    threads = [threading.Thread(target=read, args=(path,)) for path in shapes for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shapes == {photo: {(300, 400, 3)}, tmp_path / "small.png": {(20, 30, 3)}}


def test_it_ends_with_the_one_who_asked(photo):
    guard = Guard()
    guard.read_pixels(photo)
    number = pid(guard)
    guard.close()
    assert not Path(f"/proc/{number}").exists()
