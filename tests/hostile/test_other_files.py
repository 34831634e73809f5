"""A file from a stranger makes nobody open another file, start a program or wait: by audit hook and by strace."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.bombs import write_files_that_name_others

READ_ALONE = [sys.executable, str(Path(__file__).with_name("read_alone.py"))]
HANGS_S = 400  # on however busy a machine: a pipe would be waited at for ever


@pytest.fixture(scope="module")
def uploads(tmp_path_factory) -> list[Path]:
    return write_files_that_name_others(tmp_path_factory.mktemp("hostile"))


def test_no_other_file_is_opened_and_nothing_is_run(uploads):
    done = subprocess.run(
        [*READ_ALONE, *map(str, uploads)], capture_output=True, text=True, timeout=HANGS_S, check=True
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(uploads)
    said = {path.name: line["said"] for path, line in zip(uploads, lines, strict=True)}
    for path, line in zip(uploads, lines, strict=True):
        assert line["others"] == [], f"{path.name}: {line['others']}"
        assert line["seconds"] < 10, path.name
    for name in ("waits.jpg", "to_a_pipe.jpg", "endless.jpg"):
        assert said[name].startswith("bad: a pipe, socket or device"), said[name]
    assert said["folder.jpg"].startswith("bad: a folder")
    assert said["gone.jpg"] == "bad: no such file"
    for name in said:
        if name.startswith(("vms", "vmu", "script", "meta", "drawing", "slide")) and "." in name:
            assert said[name].startswith("bad: not an image"), (name, said[name])
    for name in ("ome0.ome.tif", "ome1.ome.tif"):  # its own plane is a picture; the other's is none of our business
        assert said[name].endswith("(64, 64, 3)"), said[name]


@pytest.mark.skipif(not shutil.which("strace"), reason="no strace here: what C libraries open is not seen by Python")
def test_c_libraries_open_no_other_file(uploads, tmp_path):
    trace = tmp_path / "trace"
    watch = ["strace", "-f", "-qq", "-e", "trace=open,openat,execve,execveat", "-o", str(trace)]
    done = subprocess.run([*watch, *READ_ALONE, *map(str, uploads)], capture_output=True, text=True, timeout=HANGS_S)
    if done.returncode and "ptrace" in done.stderr.lower():
        pytest.skip(f"strace may not be used here: {done.stderr.splitlines()[0]}")
    assert done.returncode == 0, done.stderr
    folder = uploads[0].parent
    opened = {Path(name) for name in re.findall(r'open(?:at)?\([^"]*"([^"]+)"', trace.read_text())}
    near = {path for path in opened if path.is_relative_to(folder.parent) or path.name in ("secret.jpg", "pipe")}
    assert near <= set(uploads)
    assert folder / "vms0.vms" in near  # it is looked at, and it sees what it should see
    assert len(re.findall(r"execve", trace.read_text())) == 1  # the interpreter itself
