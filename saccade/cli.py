"""The command line: `saccade COMMAND …`.

Each command is one function from its arguments to an exit code: 0 fine, 1 the answer is no, 2 the user must
change something. Commands import what they need when they run, so that `--help` does not wait for torch.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from jsonargparse import ArgumentParser, Namespace
from jsonargparse.typing import NonNegativeInt, PositiveInt


class Command(NamedTuple):
    """What a command does, its arguments, and the function that runs it."""

    help: str
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]


class Group(NamedTuple):
    """Commands on one subject: `saccade data check`, `saccade data make`."""

    help: str
    commands: dict[str, Command]


def _add_check_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("path", type=Path, help="a folder, a .csv or .tsv table, or an archive")
    parser.add_argument("--seed", type=NonNegativeInt, default=0, help="for splits that are drawn (default: 0)")
    parser.add_argument("--workers", type=PositiveInt, help="files decoded at once (default: one per core)")
    parser.add_argument("--max-pixels", type=PositiveInt, help="refuse larger images (default: 300 million)")
    parser.add_argument("--cache", type=Path, help="where to unpack an archive (default: beside it)")


def check_data(args: Namespace) -> int:
    """Decode a whole data set and say what is in it; 1 if a file cannot be read."""
    from rich.console import Console

    from saccade.datasets.check import Report, examine, follow, show
    from saccade.datasets.recognise import load
    from saccade.images.decode import MAX_PIXELS

    console = Console()
    records = load(args.path, seed=args.seed, cache=args.cache)
    findings = examine(records, workers=args.workers, max_pixels=args.max_pixels or MAX_PIXELS)
    report = Report(records, tuple(follow(findings, len(records.records), console)))
    show(report, console)
    return 1 if report.bad() else 0


def _add_make_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", type=str, help="what to make: signs, billiard, megapixel-mnist")
    parser.add_argument("out", type=Path, help="the folder to write; a run that was stopped goes on where it was")
    parser.add_argument("--count", type=PositiveInt, help="number of images")
    parser.add_argument("--size", type=PositiveInt, nargs="+", help="height and width in pixels, or one for both")
    parser.add_argument("--seed", type=NonNegativeInt, default=0, help="another seed, other images (default: 0)")
    parser.add_argument("--workers", type=PositiveInt, help="processes (default: one per core)")
    parser.add_argument("--source", type=Path, help="folder of the MNIST idx files, for megapixel-mnist")


def make_data(args: Namespace) -> int:
    """Generate a data set."""
    from saccade.datasets.generate import make

    if args.size and len(args.size) > 2:
        raise ValueError(f"--size takes a height and a width, or one number for both; got {args.size}")
    size = args.size and (args.size[0], args.size[-1])
    make(args.name, args.out, count=args.count, size=size, seed=args.seed, workers=args.workers, source=args.source)
    return 0


COMMANDS: dict[str, Command | Group] = {
    "data": Group(
        "check or make a data set",
        {
            "check": Command("decode every image, count, find what is wrong", _add_check_arguments, check_data),
            "make": Command("generate a data set", _add_make_arguments, make_data),
        },
    ),
}


def build_parser() -> ArgumentParser:
    """The parser of the whole command line."""
    parser = _parser("Classify high-resolution images by looking closely at a few patches.")
    parser.prog = "saccade"
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    _add_commands(parser, COMMANDS)
    return parser


def _parser(description: str) -> ArgumentParser:
    # argparse's own formatter: jsonargparse's prints Python types beside every argument.
    return ArgumentParser(
        description=description, exit_on_error=False, allow_abbrev=False, formatter_class=argparse.HelpFormatter
    )


def _add_commands(parser: ArgumentParser, commands: dict[str, Command | Group] | dict[str, Command]) -> None:
    subcommands = parser.add_subcommands(metavar="COMMAND", title="commands", description=None)
    for name, command in commands.items():
        child = _parser(command.help)
        subcommands.add_subcommand(name, child, help=command.help)
        if isinstance(command, Group):
            _add_commands(child, command.commands)
        else:
            command.add_arguments(child)


def _find(args: Namespace) -> tuple[Command, Namespace]:
    command = COMMANDS[args.subcommand]
    args = args[args.subcommand]
    if isinstance(command, Group):
        command, args = command.commands[args.subcommand], args[args.subcommand]
    return command, args


def _help_for(words: Sequence[str]) -> str:
    """The help command nearest to what was typed."""
    named, commands = ["saccade"], COMMANDS
    for word in words:
        command = commands.get(word)
        if command:
            named.append(word)
            commands = command.commands if isinstance(command, Group) else {}
    return f"{' '.join(named)} --help"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; an error the user can mend is one line, without a traceback unless `--debug` is given."""
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]  # wherever it stands
    if not words or (len(words) == 1 and isinstance(COMMANDS.get(words[0]), Group)):
        words.append("--help")
    try:
        command, args = _find(build_parser().parse_args(words))
        return command.run(args)
    except argparse.ArgumentError as error:
        return _fail(error, debug, hint=f"; see {_help_for(words)}")
    except (ValueError, OSError) as error:
        return _fail(error, debug)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def _fail(error: Exception, debug: bool, *, hint: str = "") -> int:
    if debug:
        raise error
    print(f"saccade: error: {' '.join(str(error).splitlines())}{hint}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    raise SystemExit(main())
