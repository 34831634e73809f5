"""A file is the old one or the new one, whatever happens in between."""

import subprocess
import sys

import pytest

from saccade.files import whole_file, write_whole


@pytest.mark.parametrize("content", ["σ,1\r\nß,2\n", b"\x00\xff\r\n"])
def test_content_is_written_as_it_is_over_what_was_there(tmp_path, content):
    path = tmp_path / "a.csv"
    path.write_text("something longer that was there before")
    (tmp_path / "a.csv.part").write_text("what a killed writer left, longer than the content")
    assert write_whole(path, content) == path
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError("no space left"), KeyboardInterrupt()])
@pytest.mark.parametrize("old", ["old", None])
def test_a_failure_in_the_middle_leaves_what_was_there_and_nothing_beside(tmp_path, error, old):
    path = tmp_path / "a.csv"
    if old:
        path.write_text(old)

    def write():
        with whole_file(path) as part, part.open("w") as file:
            file.write("half")
            file.flush()
            assert not old or path.read_text() == old
            raise error

    with pytest.raises(type(error)):
        write()
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == ({"a.csv": old} if old else {})


def test_a_killed_writer_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("old")
    code = (
        "import os, sys; from saccade.files import whole_file\n"
        "with whole_file(sys.argv[1]) as part: part.write_text('half'); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)]).returncode == 9
    assert path.read_text() == "old"


def test_files_written_together_appear_when_all_are_whole(tmp_path):
    def write():
        with whole_file(tmp_path / "a") as first, whole_file(tmp_path / "b") as second:
            first.write_text("whole")
            second.write_text("half")
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        write()
    assert not list(tmp_path.iterdir())
