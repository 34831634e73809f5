"""Two machines, each a network namespace, that train together: one is killed or cut off, and started again."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from lightning.fabric import Fabric
from rich.console import Console
from safetensors.torch import load_file
from tiny import make_spots, tiny_recipe

from saccade.data.dataset import ImageDataset
from saccade.runs import RunFolder
from saccade.training import machines
from saccade.training.recipe import Recipe, dump_recipe
from saccade.training.run import open_data

TREE = Path(__file__).parents[2]
FIRST = "10.77.0.1"
STARTS_S, ENDS_S = 300, machines.GONE_S + 60


class Machine:
    """A network namespace with an address, and what was started in it."""

    def __init__(self, number: int):
        self.number, self.name, self.link = number, f"saccade{os.getpid()}-{number}", f"v{os.getpid()}-{number}"
        self.process: subprocess.Popen[str] | None = None

    def train(self, recipe: Path, run: Path) -> None:
        where = ["--nnodes=2", f"--node-rank={self.number}", "--nproc-per-node=1", f"--master-addr={FIRST}"]
        words = ["-m", "torch.distributed.run", *where, "--master-port=29500", "-m", "saccade.cli", "train"]
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", self.name, sys.executable, *words, str(recipe), f"--out={run}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(TREE)},
        )

    def end(self, seconds: float) -> tuple[int, str]:
        assert self.process is not None
        told, _ = self.process.communicate(timeout=seconds)
        return self.process.returncode, told

    def kill(self) -> None:
        for process in ip("netns", "pids", self.name).split():
            os.kill(int(process), signal.SIGKILL)

    def plug(self, state: str) -> None:
        ip("-n", self.name, "link", "set", self.link, state)


def ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def pair() -> Iterator[list[Machine]]:
    if sys.platform != "linux" or os.geteuid() or not shutil.which("ip"):
        pytest.skip("network namespaces need Linux, root and iproute2")
    both = [Machine(0), Machine(1)]
    made = []
    try:
        for machine in both:
            ip("netns", "add", machine.name)
            made.append(machine)
        ip("-n", both[0].name, "link", "add", both[0].link, "type", "veth", "peer", both[1].link, "netns", both[1].name)
    except subprocess.CalledProcessError as error:
        for machine in made:
            ip("netns", "delete", machine.name)
        pytest.skip(f"network namespaces cannot be made here: {error.stderr.strip()}")
    for machine in both:
        ip("-n", machine.name, "addr", "add", f"10.77.0.{machine.number + 1}/24", "dev", machine.link)
        ip("-n", machine.name, "link", "set", "lo", "up")
        machine.plug("up")
    yield both
    for machine in both:
        machine.kill()
        ip("netns", "delete", machine.name)


@pytest.fixture(scope="module")
def recipe_file(tmp_path_factory) -> Path:
    """Noise, augmentation and batch norm, of which each process has its own."""
    folder = tmp_path_factory.mktemp("machines")
    recipe = tiny_recipe(make_spots(folder / "spots"), nodes=2, steps=196, validate_every=40)
    (folder / "recipe.yaml").write_text(dump_recipe(recipe))
    return folder / "recipe.yaml"


def train_on(pair: list[Machine], recipe: Path, run: Path) -> list[str]:
    for machine in pair:
        machine.train(recipe, run)
    codes, told = zip(*(machine.end(STARTS_S) for machine in pair), strict=True)
    assert codes == (0, 0), told
    return list(told)


@pytest.fixture(scope="module")
def undisturbed(pair, recipe_file) -> Path:
    train_on(pair, recipe_file, run := recipe_file.parent / "undisturbed")
    return run


def wait_for(path: Path) -> None:
    until = time.monotonic() + STARTS_S
    while not path.exists():
        assert time.monotonic() < until, f"no {path}"
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("lost", "how"), [(1, "killed"), (0, "killed"), (1, "cut off")])
def test_a_machine_that_is_lost_ends_the_run_soon_and_its_return_changes_nothing(
    lost, how, pair, undisturbed, recipe_file, tmp_path
):
    for machine in pair:
        machine.train(recipe_file, tmp_path / "run")
    wait_for(tmp_path / "run" / "checkpoints" / "00000040.ckpt")
    begin = time.monotonic()
    if how == "killed":
        pair[lost].kill()
        left = [pair[1 - lost]]
        pair[lost].end(10)
    else:
        pair[lost].plug("down")
        left = pair
    for machine in left:
        code, told = machine.end(ENDS_S)
        assert code != 0
        lines = [line for line in told.splitlines() if line.startswith("saccade: error: ")]
        assert len(lines) == 1, told
        assert "another process of this run has ended or cannot be reached" in lines[0]
    assert time.monotonic() - begin < ENDS_S
    assert not RunFolder(tmp_path / "run").finished
    pair[lost].plug("up")
    told = train_on(pair, recipe_file, tmp_path / "run")
    assert re.search(r"resuming at step [1-9]\d*0 ", told[0])
    for name in ("best", "last"):
        weights, expected = (load_file(run / name / "model.safetensors") for run in (tmp_path / "run", undisturbed))
        for key in expected:
            assert torch.equal(weights[key], expected[key]), (name, key)
    for file in ("metrics.csv", "evaluation/test.csv"):
        assert (tmp_path / "run" / file).read_text() == (undisturbed / file).read_text()


def fabric(broadcast: Callable[[Any], Any] = lambda mine: mine) -> Mock:
    """The one of a process that is one of two, and what the first of them says."""
    return Mock(spec=Fabric, world_size=2, broadcast=broadcast)


def test_what_torchrun_started_must_be_what_the_recipe_asks_for(monkeypatch):
    machines.check_processes(Recipe(batch=8, devices=4, nodes=2))  # without torchrun
    for name, value in (("TORCHELASTIC_RUN_ID", "a"), ("WORLD_SIZE", "4"), ("LOCAL_WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)
    machines.check_processes(Recipe(devices=2, nodes=2))
    with pytest.raises(ValueError, match=r"started 4 processes, 2 on each .* devices 1 on nodes 1: give --devices 2"):
        machines.check_processes(Recipe())


def test_several_machines_need_the_first_ones_address(monkeypatch):
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(ValueError, match="nodes is 2, and nobody said where the first machine is"):
        machines.launch(fabric(), Recipe(nodes=2), Console(quiet=True))


def test_only_errors_of_connections_are_a_lost_process():
    two = Recipe(nodes=2)
    lost = pytest.raises(ConnectionError, match=r"reached \(.*\[/a/gloo/b.cc:5\] closed\).* resumes there")
    with lost, machines.naming_lost(two):
        raise RuntimeError("[/a/gloo/b.cc:5] closed")
    for recipe, text in ((two, "shapes do not match"), (Recipe(), "[/a/gloo/b.cc:5] closed")):
        with pytest.raises(RuntimeError, match=re.escape(text)), machines.naming_lost(recipe):
            raise RuntimeError(text)


def test_connections_are_asked_whether_the_other_end_is_there():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as line:
        machines._watch_connections()
        assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
    assert machines._interface_to("127.0.0.1") == "lo"


def test_processes_that_would_train_differently_are_refused(tmp_path):
    recipe = tiny_recipe(make_spots(tmp_path / "spots", 20), nodes=2)
    data, told = open_data(recipe), []
    machines.check_alike(fabric(lambda mine: told.append(mine) or mine), recipe, data)
    second = fabric(lambda mine: told[0])
    machines.check_alike(second, replace(recipe, logger="mlflow"), data)  # changes nothing
    with pytest.raises(ValueError, match=r"otherwise than the first one \(steps 12 there, 13 here\): give the same"):
        machines.check_alike(second, replace(recipe, steps=13), data)
    records = data["train"].records
    fewer = {**data, "train": ImageDataset(records._replace(records=records.records[1:]))}
    with pytest.raises(ValueError, match=r"\(images.train 12 images \w+ there, 11 images \w+ here\)"):
        machines.check_alike(second, recipe, fewer)


def test_a_folder_that_is_not_shared_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(machines, "SEEN_S", 0)
    files = RunFolder(tmp_path / "mine")
    with pytest.raises(ValueError, match=r"mine is not the folder that the first process writes: give --out on"):
        machines.check_shared(fabric(), files)
    with pytest.raises(ValueError, match="is not the folder that the first process writes"):
        machines.check_same_step(fabric(lambda step: 10), 0, files)
    files.claim("{}")
    machines.check_shared(fabric(), files)
