"""`saccade predict` with images, lists, folders and models behind URLs gives the lines that it gives for files."""

import json
import shutil
from pathlib import Path

import pytest
from loopback import cache, server

from saccade.cli import main

__all__ = ["cache", "server"]


@pytest.fixture
def photos(server, spots, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (server.folder / "photos").mkdir()
    for number in range(4):
        shutil.copy(spots / "images" / f"{number:03d}.png", server.folder / "photos" / f"{number}.png")
    return f"{server.url}/photos"


def lines(path: str, prefix: str) -> list[dict]:
    found = [json.loads(line) for line in Path(path).read_text().splitlines()]
    return [{**line, "image": line["image"].removeprefix(prefix), "milliseconds": 0} for line in found]


def test_predict_says_the_same_of_urls_by_a_model_behind_one(server, run, photos):
    here, there = [f"served/photos/{n}.png" for n in range(4)], [f"{photos}/{n}.png" for n in range(4)]
    words = ["--batch", "1", "--workers", "0", "--device", "cpu", "--out"]
    assert main(["predict", str(run), *here, *words, "here.jsonl"]) == 0
    shutil.copytree(run, server.folder / "run")
    (server.folder / "list.txt").write_text(f"photos/0.png\n{photos}/1.png\n")
    sources = [f"{server.url}/list.txt", *there[2:], f"{photos}/gone.png"]
    assert main(["predict", f"{server.url}/run", *sources, *words, "there.jsonl"]) == 1
    *found, gone = lines("there.jsonl", f"{server.url}/photos/")
    assert found == lines("here.jsonl", "served/photos/")
    assert gone["error"] == "no such file or folder"


def test_a_folder_is_one_source(run, photos):
    assert main(["predict", str(run), f"{photos}/", "--workers", "1", "--device", "cpu", "--out", "all.jsonl"]) == 0
    assert [line["image"] for line in lines("all.jsonl", f"{photos}/")] == [f"{n}.png" for n in range(4)]


@pytest.mark.parametrize("line", ["/etc/passwd", "../../a.png"])
def test_a_list_from_elsewhere_names_no_file_of_this_machine(server, run, photos, line, capsys):
    (server.folder / "list.txt").write_text(f"{line}\n")
    assert main(["predict", str(run), f"{server.url}/list.txt", "--workers", "0"]) == 2
    told = capsys.readouterr().err
    assert "leads out of" in told
    assert told.count("\n") == 1


def test_no_model_behind_a_url_is_one_line(server, photos, capsys):
    assert main(["predict", f"{server.url}/run", f"{photos}/0.png", "--workers", "0"]) == 2
    assert "/run: no model there" in capsys.readouterr().err
