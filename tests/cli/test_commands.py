"""The command line as a user meets it: fast help, one-line errors, exit codes."""

import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from saccade import cli
from saccade.cli import main
from saccade.recipes import list_recipes

HELP_WITHOUT_HEAVY_IMPORTS = """
import sys
from saccade.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert end.code == 0, end.code
heavy = {"torch", "PIL", "rich", "tifffile", "lightning", "matplotlib"} & set(sys.modules)
assert not heavy, heavy
"""


@pytest.mark.parametrize(
    "words",
    [
        *([], ["--help"], ["data", "--help"], ["data", "check", "--help"], ["data", "make", "-h"]),
        *(["train", "--help"], ["evaluate", "--help"], ["report", "-h"], ["recipes", "-h"]),
    ],
)
def test_help_imports_nothing_heavy(words):
    done = subprocess.run(
        [sys.executable, "-c", HELP_WITHOUT_HEAVY_IMPORTS, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: saccade")


def test_help_lists_every_command(capsys):
    for words in ([], ["data"]):
        with pytest.raises(SystemExit):
            main([*words, "--help"])
        text = capsys.readouterr().out
        commands = cli.COMMANDS if not words else cli.COMMANDS["data"].commands  # type: ignore[union-attr]
        for name, command in commands.items():
            assert name in text
            assert command.help in " ".join(text.split())


def test_a_sound_set_is_0(pets, capsys):
    assert main(["data", "check", str(pets)]) == 0
    out = capsys.readouterr().out
    assert "20 images, 0 unreadable, 0 in several splits" in out
    assert "sizes: all 12×16 (height×width)" in out
    assert "decoded 20 of 20 images" in out  # plain lines, since this is not a terminal
    assert "\x1b" not in out


def test_unreadable_files_are_1_and_each_is_named(pets, capsys):
    cat, dog = pets / "cat" / "3.png", pets / "dog" / "4.png"
    cat.write_bytes(b"")
    dog.write_bytes(dog.read_bytes()[:100])
    assert main(["data", "check", str(pets), "--workers", "2"]) == 1
    out = capsys.readouterr().out
    assert f"unreadable: {cat}: the file is empty (0 bytes)\n" in out
    assert f"unreadable: {dog}: damaged or truncated (" in out


def test_a_name_that_is_not_utf8_is_printed(pets):
    (pets / "cat" / os.fsdecode(b"\xff.png")).write_bytes(b"")
    words = [sys.executable, "-m", "saccade.cli", "data", "check", str(pets)]
    done = subprocess.run(words, capture_output=True, env={**os.environ, "PYTHONUTF8": "1"}, check=False)
    assert done.returncode == 1
    assert f"unreadable: {pets}/cat/\\udcff.png: the file is empty" in done.stdout.decode()


def test_the_limit_on_pixels_is_an_option(pets, capsys):
    assert main(["data", "check", str(pets), "--max-pixels", "191"]) == 1
    assert "20 images, 20 unreadable" in capsys.readouterr().out
    assert main(["data", "check", str(pets), "--max-pixels", "192"]) == 0


def test_the_seed_is_an_option(pets, capsys):
    main(["data", "check", str(pets), "--seed", "5"])
    assert "stratified by class, seed 5" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["data", "check", "/nowhere"], "/nowhere: no such file or folder; check the path"),
        (
            ["data", "check", "x", "--wrokers", "2"],
            "unrecognized arguments: --wrokers 2; see saccade data check --help",
        ),
        (["data", "check", "x", "--work", "2"], "unrecognized arguments: --work 2; see saccade data check --help"),
        (["data", "check", "x", "--workers", "0"], "--workers is 0: expected a whole number of at least 1; see"),
        (["data", "check", "x", "--workers", "two"], "--workers is two: expected a whole number of at least 1; see"),
        (["data", "check", "x", "--seed", "-1"], "--seed is -1: expected a whole number of 0 or more; see"),
        (["data", "make", "x", "y", "--size", "a", "3"], "--size is a: expected a whole number of at least 1; see"),
        (["serve", "x", "--max-mb", "much"], "--max-mb is much: expected a number above 0; see"),
        (["serve", "x", "--port", "99999"], "--port is 99999: expected a port from 0 to 65535; see"),
        (["predict"], "the following arguments are required: run, images; see saccade predict --help"),
        (["data", "check"], "see saccade data check --help"),
        (["data", "chekc", "x"], "see saccade data --help"),
        (["dat"], "see saccade --help"),
        (["data", "make", "signs"], "see saccade data make --help"),
        (
            ["data", "make", "signs", "out", "--size", "1", "2", "3"],
            "--size takes a height and a width, or one number for both",
        ),
    ],
)
def test_a_users_error_is_one_line_and_2(words, message, capsys):
    assert main(words) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.startswith("saccade: error: ")
    assert message in streams.err
    assert streams.err.count("\n") == 1


def test_a_folder_that_cannot_be_read_is_one_line(pets, capsys, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied", str(pets))

    monkeypatch.setattr("saccade.data.loading.load", refuse)
    assert main(["data", "check", str(pets)]) == 2
    assert capsys.readouterr().err == f"saccade: error: [Errno 13] Permission denied: '{pets}'\n"


@pytest.mark.parametrize("words", [["--debug", "data", "check", "/nowhere"], ["data", "check", "/nowhere", "--debug"]])
def test_debug_shows_the_traceback(words):
    with pytest.raises(ValueError, match="no such file or folder"):
        main(words)


def test_a_stopped_run_is_130(pets, capsys, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("saccade.data.loading.load", interrupt)
    assert main(["data", "check", str(pets)]) == 130
    assert capsys.readouterr().err == "stopped\n"


@pytest.mark.parametrize(
    ("size", "expected"), [([], None), (["--size", "64"], (64, 64)), (["--size", "48", "64"], (48, 64))]
)
def test_make_hands_its_arguments_on(monkeypatch, size, expected):
    calls = []
    generate = types.ModuleType("saccade.data.generate")
    generate.make = lambda *args, **options: calls.append((args, options))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "saccade.data.generate", generate)
    assert main(["data", "make", "signs", "out", "--count", "7", "--seed", "3", "--workers", "2", *size]) == 0
    options = {"count": 7, "size": expected, "seed": 3, "workers": 2, "source": None}
    assert calls == [(("signs", Path("out")), options)]


def test_as_a_program(pets):
    (pets / "cat" / "0.png").write_text("no image")
    done = subprocess.run(
        [sys.executable, "-m", "saccade.cli", "data", "check", str(pets)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert f"unreadable: {pets / 'cat' / '0.png'}: not an image" in done.stdout
    assert done.stderr == ""


def test_recipes_are_listed(capsys):
    assert main(["recipes"]) == 0
    text = capsys.readouterr().out
    for recipe in list_recipes():
        assert recipe.name in text
