"""A data set in shards is the data set: the same records, pixels and weights, from anywhere, in a small cache."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from tiny import make_spots, tiny_recipe
from tiny_fit import CrashError, crash_at

from saccade.cli import main
from saccade.data.dataset import ImageDataset
from saccade.data.loading import load
from saccade.data.records import DataError
from saccade.data.sharding import plan_shards, write_shards
from saccade.images import BadImage
from saccade.images.decode import read_pixels
from saccade.images.in_shards import at_hand
from saccade.places import members
from saccade.training import loop
from saccade.training.phases import Training
from saccade.training.recipe import dump_recipe
from saccade.training.run import train

BYTES = 60_000  # seven spots in each shard


@pytest.fixture(scope="module")
def spots(tmp_path_factory) -> Path:
    return make_spots(tmp_path_factory.mktemp("data") / "spots")


@pytest.fixture(autouse=True)
def forget_shards(cache, monkeypatch):
    """Each test is a process of its own: tests use the same ports, and folders of the same names."""
    members._shard.cache_clear()
    monkeypatch.setattr(loop, "Panels", lambda *_, **__: Mock())


def shard(data: Path, out: Path, size: int = BYTES) -> Path:
    records = load(data)
    list(write_shards(records, out, plan_shards(records, size)))
    return out


@pytest.fixture
def served(spots, server) -> str:
    """The spots in shards behind HTTP."""
    shard(spots, server.folder / "shards")
    return f"{server.url}/shards"


def assert_same_weights(run: Path, other: Path) -> None:
    for name in ("best", "last"):
        weights, expected = (load_file(folder / name / "model.safetensors") for folder in (run, other))
        assert weights.keys() == expected.keys()
        assert all(torch.equal(weights[key], expected[key]) for key in weights)


TABLES = {
    "groups, folds and kinds": "image,label,split,boxes,group,fold\n"
    "a/1.png,open;short,train,1 2 3 4 open;5 6 7 8 short,Tom,1\na/2.png,;,val,,Tom,1\n3.png,open,test,0 0 1 1,Rex,0\n",
    "questions": "image,label:age,label:what,split\na/1.png,old,cat,train\na/2.png,old,dog,val\n3.png,new,dog,train\n",
    "a column for each label": "image,split,open,short\na/1.png,train,1,0\na/2.png,val,1,1\n3.png,train,0,1\n",
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_records_come_back_as_they_were(table, tmp_path):
    (tmp_path / "set" / "a").mkdir(parents=True)
    for place, name in enumerate(("a/1.png", "a/2.png", "3.png")):
        Image.new("RGB", (8 + place, 9), (place, 0, 0)).save(tmp_path / "set" / name)
    (tmp_path / "set" / "labels.csv").write_text(table)
    there, here = load(tmp_path / "set"), load(shard(tmp_path / "set", tmp_path / "out", 1))
    assert (here.task, here.classes, here.questions) == (there.task, there.classes, there.questions)
    for record, copy in zip(there.records, here.records, strict=True):
        assert copy._replace(image=record.image) == record
        with at_hand(copy.image) as file:
            assert np.array_equal(read_pixels(Path(file)), read_pixels(record.image))


def test_shards_hold_each_image_once_and_no_more_than_asked(spots, tmp_path):
    out = shard(spots, tmp_path / "out")
    names, records = [], load(spots).records
    for tar in out.glob("*.tar"):
        with tarfile.open(tar) as archive:  # any reader of tars finds the same bytes
            for about in archive:
                assert archive.extractfile(about).read() == (spots / about.name).read_bytes()
                names.append((about.name, tar.name.partition("-")[0]))
            assert sum(about.size for about in archive.getmembers()[:-1]) < BYTES
    assert sorted(names) == sorted((str(r.image.relative_to(spots)), r.split) for r in records)


def test_what_was_stopped_goes_on_and_ends_the_same(spots, tmp_path):
    out, records = tmp_path / "out", load(spots)
    planned = plan_shards(records, BYTES)
    writing = write_shards(records, out, planned)
    first = [next(writing), next(writing)]
    writing.close()
    with pytest.raises(DataError, match="not a data set"):
        load(out)
    (out / "train-00001.json").unlink()  # killed between the two files
    before = (out / f"{first[0].name}.tar").stat().st_mtime_ns
    list(write_shards(records, out, planned))
    assert (out / f"{first[0].name}.tar").stat().st_mtime_ns == before
    whole = shard(spots, tmp_path / "whole")
    assert {p.name: p.read_bytes() for p in out.iterdir()} == {p.name: p.read_bytes() for p in whole.iterdir()}
    with pytest.raises(DataError, match="holds a data set already"):
        list(write_shards(records, out, planned))
    with pytest.raises(DataError, match="is in shards already"):
        plan_shards(load(out), BYTES)


def test_weights_are_those_of_the_folder_also_after_a_crash_in_a_cache_of_a_few_images(
    spots, served, cache, tmp_path, monkeypatch
):
    recipe = tiny_recipe(spots, training=Training(), steps=6, validate_every=3)
    expected = train(recipe, tmp_path / "folder")
    monkeypatch.setenv("SACCADE_CACHE_GB", "0.0001")  # of 0.5 MB
    most, write = [0], members._Shard.write

    def count_after(*args) -> None:
        write(*args)
        blocks = sum(path.stat().st_blocks for path in (cache / "files").rglob("*") if path.is_file())
        most[0] = max(most[0], 512 * blocks)

    monkeypatch.setattr(members._Shard, "write", count_after)
    recipe = replace(recipe, data=replace(recipe.data, path=served))
    crash_at(4, monkeypatch)
    with pytest.raises(CrashError):
        train(recipe, tmp_path / "shards")
    shutil.rmtree(cache)  # on another machine
    train(recipe, tmp_path / "shards")
    assert_same_weights(tmp_path / "shards", expected)
    # The limit, and the twentieth by which a process may pass it before it counts again.
    assert 50_000 < most[0] <= 105_000


@pytest.mark.slow
def test_two_processes_that_read_ahead_give_the_weights_of_the_folder(spots, served, tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(dump_recipe(tiny_recipe(spots, devices=2)))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    for run, flags in (("folder", []), ("shards", [f"--data.path={served}", "--data.workers=2"])):
        words = ["train", str(recipe), "--out", str(tmp_path / run), *flags]
        subprocess.run([sys.executable, "-m", "saccade.cli", *words], check=True, env=environment)
    assert_same_weights(tmp_path / "shards", tmp_path / "folder")
    assert (tmp_path / "shards" / "report.html").is_file()


def test_a_damaged_or_missing_shard_is_told_in_one_line(spots, served, server, capsys, monkeypatch):
    shards = server.folder / "shards"
    index = json.loads((shards / "train-00000.json").read_text())
    (name, (start, *_)), *_ = index.items()
    with (shards / "train-00000.tar").open("r+b") as file:
        file.seek(start + 100)
        file.write(b"?")
    (shards / "train-00001.tar").unlink()
    (shards / "train-00002.json").write_text("{")
    assert main(["data", "check", served, "--workers", "1"]) == 1
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("unreadable")]
    place = [record.image.name for record in load(served).split("train").records].index(Path(name).name)
    with pytest.raises(BadImage, match=rf"train-00000.tar/{name}: this shard is damaged"):
        ImageDataset(load(served).split("train"))[place]
    [damaged] = [line for line in told if "train-00000" in line]
    assert f"train-00000.tar/{name}: this shard is damaged where the image {name} lies: make it again" in damaged
    assert any("train-00001.tar" in line and "no such file" in line for line in told)
    assert any("the index of this shard is damaged" in line for line in told)


def test_a_missing_shard_of_a_folder_is_told_with_the_line_of_the_table(spots, tmp_path):
    out = shard(spots, tmp_path / "out")
    (out / "val-00000.tar").unlink()
    with pytest.raises(DataError, match=r"labels.csv, line \d+: no shard val-00000.tar in .*; put it there"):
        load(out)


def test_a_server_without_ranges_sends_whole_shards(served, server):
    server.ranges = False
    record = load(served).records[0]
    with at_hand(record.image) as file:
        assert read_pixels(Path(file)).shape == (64, 64, 3)


def test_no_folder_of_somebody_else_stands_in_for_a_url(served, tmp_path):
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / ".origin").write_text(served)
    (folder / "labels.csv").write_text("image,label,split\ntrain-00000.tar/a.png,cat,train\n")
    with pytest.raises(DataError, match=r"no shard train-00000\.tar"):
        load(folder)
    with pytest.raises(BadImage, match="missing"), at_hand(folder / "train-00000.tar" / "a.png"):
        pass


def test_a_size_must_be_bytes(spots, tmp_path, capsys):
    assert main(["data", "shard", str(spots), str(tmp_path / "out"), "--size", "many"]) == 2
    assert "--size is many: expected bytes, such as 256MB or 1GB" in capsys.readouterr().err
