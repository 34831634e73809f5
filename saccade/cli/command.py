"""What a command is: its words, its arguments, and the function that runs it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from jsonargparse import ArgumentParser, Namespace

from saccade.cluster import HERE


class Command(NamedTuple):
    """What a command does, its arguments, and the function from their values to an exit code."""

    help: str
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]


class WordCommand(NamedTuple):
    """A command that parses its words itself."""

    help: str
    run: Callable[[Sequence[str]], int]


class Group(NamedTuple):
    """Commands on one subject: `saccade data check`, `saccade data make`."""

    help: str
    commands: dict[str, Command]


def add_ray(parser: ArgumentParser, what: str) -> None:
    """The flag `--ray [ADDRESS]`, and what is done there."""
    more = "default ADDRESS: RAY_ADDRESS, or that of this machine; local: make one"
    parser.add_argument("--ray", type=str, nargs="?", const=HERE, metavar="ADDRESS", help=f"{what} ({more})")
