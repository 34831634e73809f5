"""Every command in a shell block of the README and the docs exists, with its flags, as it is written there.

They are parsed, not run: the Python blocks, the notebooks and the tests of the commands run what they do.
"""

import re
import shlex
import tomllib
from argparse import ArgumentError
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from saccade.cli import COMMANDS, build_parser
from saccade.cli.command import WordCommand
from saccade.cli.train import read_words
from saccade.training.recipe import load_recipe

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^ *```(?:sh|bash)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")] + sorted((ROOT / "docs").glob("*.md"))
BLOCKS = {page.name: BLOCK.findall(page.read_text()) for page in PAGES}
# Programs of others: what they are given is theirs.
OTHERS = {"cd", "curl", "docker", "export", "hf", ".venv/bin/pre-commit"}


def commands(block: str) -> Iterator[list[str]]:
    """The words of each line, without its comment, and of a job for Slurm the command in it."""
    for line in block.replace("\\\n", " ").replace("$SLURM_ARRAY_TASK_ID", "3").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["sbatch"]:
            words = shlex.split(words[words.index("--wrap") + 1])
        if words:
            yield words[1:] if words[0] == "srun" else words


def check(words: Sequence[str]) -> None:
    program, *rest = words
    if program == "saccade":
        check_saccade(rest)
    elif program == "make":
        assert re.search(rf"^{rest[0]}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    elif program == "pip":
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        asked = re.fullmatch(r"(?:\.|saccade)(?:\[(.*)\])?", rest[-1])
        assert asked
        assert {*(asked[1] or "all").split(",")} <= extras.keys()
    else:
        assert program in OTHERS


def check_saccade(words: Sequence[str]) -> None:
    if not isinstance(COMMANDS[words[0]], WordCommand):
        build_parser().parse_args(words)
        return
    typed = read_words(words[1:])
    # What an own folder asks for is not known here; a flag is one of any recipe.
    load_recipe("signs/perturbed", typed.flags)


@pytest.mark.parametrize("page", [page for page, blocks in BLOCKS.items() if blocks])
def test_shell_blocks_can_be_typed(page):
    found = [words for block in BLOCKS[page] for words in commands(block)]
    assert found
    for words in found:
        check(words)


@pytest.mark.parametrize(
    "line",
    ["saccade predict run photos --outt x", "saccade trian a", "saccade train a --stepz 3", "make cake", "rm -r /"],
)
def test_what_is_not_there_is_found(line):
    with pytest.raises((AssertionError, KeyError, ArgumentError, ValueError)):
        check(shlex.split(line))
