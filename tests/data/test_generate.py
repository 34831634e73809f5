"""Making data sets: the same bytes whatever the workers and the interruptions, and refusals that keep data apart."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from filelock import FileLock

from saccade.data.generate import SETTINGS_FILE, make
from saccade.data.records import DataError

SMALL = {"signs": (96, 128), "billiard": (128, 128)}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each set made in one go by one process."""
    root = tmp_path_factory.mktemp("whole")
    return {name: make(name, root / name, count=12, size=size, seed=3, workers=1) for name, size in SMALL.items()}


@pytest.mark.parametrize("name", SMALL)
def test_two_workers_write_the_same_bytes_as_one(name: str, whole: dict[str, Path], tmp_path: Path):
    make(name, tmp_path / "two", count=12, size=SMALL[name], seed=3, workers=2)
    assert contents(tmp_path / "two") == contents(whole[name])


def test_another_seed_makes_other_pictures(whole: dict[str, Path], tmp_path: Path):
    make("signs", tmp_path / "other", count=1, size=SMALL["signs"], seed=4, workers=1)
    first = "images/000000.jpg"
    assert contents(tmp_path / "other")[first] != contents(whole["signs"])[first]


def test_a_killed_run_goes_on_to_the_same_bytes(whole: dict[str, Path], tmp_path: Path):
    out = tmp_path / "killed"
    script = f"make('signs', {str(out)!r}, count=12, size=(96, 128), seed=3, workers=1)"
    process = subprocess.Popen(
        [sys.executable, "-c", f"from saccade.data.generate import make; {script}"], stdout=subprocess.DEVNULL
    )
    while len(list(out.glob("images/*.jpg"))) < 2 and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert 0 < len(list(out.glob("images/*.jpg"))) < 12
    assert not (out / "labels.csv").exists()
    done = {path: os.stat(path).st_mtime_ns for path in out.glob("images/*.jpg")}
    make("signs", out, count=12, size=(96, 128), seed=3, workers=1)
    assert contents(out) == contents(whole["signs"])
    assert all(os.stat(path).st_mtime_ns == before for path, before in done.items())  # kept, not made again


def test_two_that_make_the_same_set_take_turns(whole: dict[str, Path], tmp_path: Path):
    out, options = tmp_path / "signs", {"count": 12, "size": SMALL["signs"], "seed": 3, "workers": 1}
    with ThreadPoolExecutor(2) as pool, FileLock(tmp_path / ".signs.lock"):
        both = [pool.submit(make, "signs", out, **options) for _ in range(2)]
        time.sleep(0.3)
        assert not out.exists()
    assert [done.result() for done in both] == [out, out]
    assert contents(out) == contents(whole["signs"])


def test_a_finished_set_is_read_where_nobody_can_write(whole: dict[str, Path], tmp_path: Path, monkeypatch):
    out = shutil.copytree(whole["signs"], tmp_path / "signs")
    monkeypatch.setattr("os.access", lambda path, mode: False)  # whoever runs the tests may write anywhere
    make("signs", out, count=12, size=SMALL["signs"], seed=3, workers=1)
    assert [path.name for path in tmp_path.iterdir()] == ["signs"]


def test_a_half_written_file_is_no_file(whole: dict[str, Path], tmp_path: Path):
    make("billiard", tmp_path, count=12, size=(128, 128), seed=3, workers=1)
    picture, balls = tmp_path / "train/0.png", tmp_path / "train/3.json"
    picture.with_name("0.png.part").write_bytes(picture.read_bytes()[:100])
    picture.unlink()
    balls.unlink()
    make("billiard", tmp_path, count=12, size=(128, 128), seed=3, workers=1)
    assert contents(tmp_path) == contents(whole["billiard"])


def test_a_set_grows_into_the_larger_one(whole: dict[str, Path], tmp_path: Path):
    for count in (5, 12):
        make("signs", tmp_path, count=count, size=SMALL["signs"], seed=3, workers=1)
    assert contents(tmp_path) == contents(whole["signs"])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"seed": 4}, r"seed 3 \(asked for: 4\)"),
        ({"size": (96, 130)}, r"size \[96, 128\] \(asked for: \[96, 130\]\)"),
        ({"count": 11}, "holds 12 items, 11 were asked for"),
        ({"sign_px": (10, 12)}, "sign_px"),
    ],
)
def test_other_settings_are_refused(changed: dict, message: str, whole: dict[str, Path]):
    before = contents(whole["signs"])
    with pytest.raises(DataError, match=message):
        make("signs", whole["signs"], **({"count": 12, "size": (96, 128), "seed": 3, "workers": 1} | changed))
    assert contents(whole["signs"]) == before


def test_another_version_or_generator_is_refused(whole: dict[str, Path], tmp_path: Path):
    settings = json.loads((whole["signs"] / SETTINGS_FILE).read_text())
    (tmp_path / SETTINGS_FILE).write_text(json.dumps(settings | {"version": 0}))
    with pytest.raises(DataError, match="version 0"):
        make("signs", tmp_path, count=12, size=(96, 128), seed=3)
    with pytest.raises(DataError, match="generator signs"):
        make("billiard", whole["signs"], count=12, size=(96, 128), seed=3)


def test_a_folder_of_something_else_is_refused(tmp_path: Path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match="not made by a generator"):
        make("signs", tmp_path, count=1)
    assert contents(tmp_path) == {"thesis.txt": b"years of work"}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("roses", {}, "choose one of signs, billiard, megapixel-mnist"),
        ("signs", {"source": Path("mnist")}, "no option 'source'; it has sign_px"),
        ("billiard", {"sign_px": (1, 2)}, "no option 'sign_px'; it has none"),
        ("megapixel-mnist", {"source": None}, "cannot be made without source"),
    ],
)
def test_wrong_requests_are_refused_before_anything_is_written(name: str, options: dict, message: str, tmp_path: Path):
    with pytest.raises(DataError, match=message):
        make(name, tmp_path / "out", count=1, **options)
    assert not (tmp_path / "out").exists()


def test_listing_the_generators_does_not_import_torch():
    code = "import sys; from saccade.data.generate import GENERATORS; print(*GENERATORS, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "signs billiard megapixel-mnist megapixel-mnist-images False\n"


def test_settings_that_were_refused_do_not_keep_the_folder(tmp_path):
    with pytest.raises(DataError):
        make("billiard", tmp_path / "set", count=1, size=(20, 20), workers=1)
    make("billiard", tmp_path / "set", count=1, size=(112, 112), workers=1)
    with pytest.raises(DataError, match="holds data of other settings"):
        make("billiard", tmp_path / "set", count=1, size=(120, 120), workers=1)
