"""`saccade predict --ray`: on a real cluster of three nodes on this machine, and what is refused before."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ray_nodes import ROOT, three_nodes

from saccade import extras
from saccade.cli import main

SAME_NUMBERS = ["--batch", "1", "--workers", "0", "--device", "cpu"]


@pytest.fixture(scope="module")
def many(spots, tmp_path_factory) -> Path:
    """A folder with 1200 images, of which one is damaged."""
    folder = tmp_path_factory.mktemp("many")
    for number in range(1200):
        shutil.copy(spots / "images" / f"{number % 20:03d}.png", folder / f"{number:03d}.png")
    (folder / "077.png").write_bytes(b"")
    return folder


def timeless(path: Path) -> str:
    """The lines without what differs from run to run."""
    return re.sub(r', "milliseconds": [0-9.]+', "", path.read_text())


def lines_in(folder: Path) -> dict[str, int]:
    """How many each shard has."""
    return {path.name: path.read_bytes().count(b"\n") for path in folder.glob("out.*.jsonl")}


def wait_until(true: Callable[[], bool], during: subprocess.Popen[bytes]) -> None:
    while not true():
        assert during.poll() is None, "it ended too soon"
        time.sleep(0.02)


def shards_in_work(folder: Path) -> int:
    """Those that have lines and are not whole."""
    return sum(
        lines > 0 and not Path(folder, name).with_suffix(".json").exists() for name, lines in lines_in(folder).items()
    )


@pytest.mark.slow
def test_a_node_that_is_killed_and_a_command_that_is_killed_cost_no_line(run, many, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["predict", str(run), str(many), "--out", "one.jsonl", *SAME_NUMBERS]) == 1
    with three_nodes() as nodes:
        words = ["predict", str(run), str(many), "--out", "out.jsonl", *SAME_NUMBERS, "--ray", nodes.address]
        command = [sys.executable, "-m", "saccade.cli", *words, "--resume"]
        Path("out.1-of-3.jsonl").touch()  # as an array of three jobs would leave it: a shard for each node
        first = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": ROOT})
        wait_until(lambda: shards_in_work(tmp_path) == 3, first)  # so the node that is killed has one
        nodes.kill_one()
        done = sum(lines_in(tmp_path).values())
        wait_until(lambda: sum(lines_in(tmp_path).values()) > done + 50, first)
        first.send_signal(signal.SIGKILL)
        first.wait()
        left = lines_in(tmp_path)
        assert 0 < sum(left.values()) < 1200, "it was to be killed on the way"
        second = subprocess.run(command, env=os.environ | {"PYTHONPATH": ROOT}, capture_output=True, text=True)
    assert second.returncode == 1, second.stderr
    assert f"{1200 - sum(left.values())} images in" in second.stderr  # and none of those that had a line
    assert "1 of 1200 images failed" in second.stderr
    assert timeless(Path("out.jsonl")) == timeless(Path("one.jsonl"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.jsonl", "out.jsonl"]


@pytest.mark.slow
def test_what_is_wrong_over_there_is_one_line(many, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["predict", "nowhere", str(many), "--out", "out.jsonl", "--ray", "local", *SAME_NUMBERS]) == 2
    told = capsys.readouterr().err
    assert re.search(r"error: .*nowhere: no such .* \(on .*: all machines need the run under this name\)\n", told), told
    assert main(["predict", "nowhere", str(many), "--out", "out.jsonl", "--ray", "local", "--workers", "9999"]) == 2
    assert "no machine of the cluster has 10000 cores for a model and its 9999 readers" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--ray needs a file: name it with --out"),
        (["--out", "out.txt"], "predictions are written as .jsonl or .csv"),
        (["--out", "out.jsonl", "--shard", "1/2"], "--shard does not go with --ray"),
        (["--out", "out.jsonl", "--overlay", "seen"], "--overlay does not go with --ray: pictures are drawn on one"),
        (["--out", "out.jsonl", "--crops", "seen"], "--crops does not go with --ray"),
        (["--out", "there.jsonl", "--resume"], "there.jsonl exists: what --ray continues are its shards"),
        (["--out", "out.jsonl", "--ray", "ray://host:1"], "Ray's client cannot do this"),
        (["--out", "out.jsonl", "--ray", "127.0.0.1:1"], "--ray 127.0.0.1:1: no cluster answers"),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_line(spots, tmp_path, monkeypatch, capsys, words, message):
    pytest.importorskip("ray")
    monkeypatch.chdir(tmp_path)
    Path("there.jsonl").touch()
    assert main(["predict", "run", str(spots / "images"), "--ray", *words]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["there.jsonl"]


def test_without_ray_the_extra_is_asked_for(spots, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(extras.EXTRAS, "ray", ("no_such_module",))
    assert main(["predict", "run", str(spots / "images"), "--ray", "--out", str(tmp_path / "out.jsonl")]) == 2
    assert "--ray needs no_such_module: pip install 'saccade[ray]'" in capsys.readouterr().err
