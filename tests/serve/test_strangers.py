"""An upload is a stranger's file: whatever it says, no other file is opened for it and nothing is run."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.bombs import write_files_that_name_others

ROOT = Path(__file__).parents[2]
ALONE = [sys.executable, str(Path(__file__).with_name("examine_alone.py"))]


@pytest.fixture(scope="module")
def uploads(tmp_path_factory) -> Path:
    return write_files_that_name_others(tmp_path_factory.mktemp("hostile"))[0].parent


def look_alone(model_folder: Path, uploads: Path, how: str, *before: str) -> dict[str, dict]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [*before, *ALONE, str(model_folder), str(uploads), how]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, env=env)
    if done.returncode and "ptrace" in done.stderr.lower():
        pytest.skip(f"strace may not be used here: {done.stderr.splitlines()[0]}")
    assert done.returncode == 0, done.stderr
    return {line["name"]: line for line in map(json.loads, done.stdout.splitlines())}


def test_no_upload_makes_the_server_open_another_file(model_folder, uploads):
    answers = look_alone(model_folder, uploads, "here")
    assert len(answers) == len(list(uploads.iterdir()))
    assert {name: line["others"] for name, line in answers.items() if line["others"]} == {}
    expected = {"vms0.vms": 415, "vmu1.jpg": 415, "slide.mrxs": 415, "script.eps": 415, "meta.wmf": 415}
    expected |= {"drawing.svg": 415, "waits.jpg": 415, "endless.jpg": 415, "folder.jpg": 415, "ome1.ome.tif": 200}
    assert {name: answers[name]["status"] for name in expected} == expected


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("strace"), reason="no strace here: what C libraries open is not seen by Python")
def test_nor_do_c_libraries_nor_the_process_that_decodes(model_folder, uploads, tmp_path):
    trace = tmp_path / "trace"
    watch = ("strace", "-f", "-qq", "-e", "trace=open,openat,execve,execveat", "-o", str(trace))
    look_alone(model_folder, uploads, "guarded", *watch)
    text, folder = trace.read_text(), uploads.parent
    opened = {Path(name) for name in re.findall(r'open(?:at)?\([^"]*"([^"]+)"', text)}
    near = {path for path in opened if path.is_relative_to(folder) or path.name in ("secret.jpg", "pipe")}
    assert near <= {uploads, *uploads.iterdir(), *(folder / str(number) for number in range(4))}
    assert uploads / "vms0.vms" in near  # it is looked at, and strace sees it
    begin = text.index(f'"{uploads}/')  # modules are imported and guards started before
    assert re.findall(r'execve(?:at)?\("([^"]+)"', text[begin:]) == []
