"""What a command is: its words, its arguments, and the function that runs it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from jsonargparse import ArgumentParser, Namespace


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
