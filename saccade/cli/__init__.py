"""The command line: `saccade COMMAND …`.

Each command is one function from its arguments to an exit code: 0 fine, 1 the answer is no, 2 the user must
change something. Commands import what they need when they run, so that `--help` does not wait for torch.
"""

import argparse
import io
import re
import sys
from collections.abc import Mapping, Sequence

from jsonargparse import ArgumentParser, Namespace

from saccade.cli.command import Command, Group, WordCommand
from saccade.cli.data import DATA
from saccade.cli.doctor import DOCTOR
from saccade.cli.export import EXPORT
from saccade.cli.label import LABEL
from saccade.cli.predict import MERGE, PREDICT
from saccade.cli.push import PUSH
from saccade.cli.reproduce import REPRODUCE
from saccade.cli.runs import EVALUATE, RECIPES, REPORT
from saccade.cli.serve import SERVE
from saccade.cli.train import TRAIN
from saccade.files import shown

COMMANDS: dict[str, Command | WordCommand | Group] = {
    "data": DATA,
    "recipes": RECIPES,
    "train": TRAIN,
    "evaluate": EVALUATE,
    "predict": PREDICT,
    "merge": MERGE,
    "report": REPORT,
    "label": LABEL,
    "export": EXPORT,
    "push": PUSH,
    "reproduce": REPRODUCE,
    "serve": SERVE,
    "doctor": DOCTOR,
}


def build_parser() -> ArgumentParser:
    """The parser of the whole command line."""
    parser = _parser("Classify high-resolution images by looking closely at a few patches.")
    parser.prog = "saccade"
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    _add_commands(parser, COMMANDS)
    return parser


# The parser's names of what a number may be, in words.
EXPECTED = {
    "PositiveInt": "a whole number of at least 1",
    "NonNegativeInt": "a whole number of 0 or more",
    "PositiveFloat": "a number above 0",
    "NonNegativeFloat": "a number of 0 or more",
    "Port": "a port from 0 to 65535",
}


def _explain(error: str) -> str:
    """The parser's message without the types of Python, and without the name of the command before each argument.

    >>> _explain("Parser key \\"max_mb\\": Not of type PositiveFloat: could not convert string to float: 'x'")
    '--max-mb is x: expected a number above 0'
    """
    error = " ".join(error.split())
    wrong = re.search(r'Parser key "(\w+)".*: Not of type (\w+): (?:.*: \'(.*)\'|(\S+) does not conform)', error)
    if wrong is None or wrong[2] not in EXPECTED:
        return re.sub(r"\b(?:[a-z]+\.)+(\w+)", r"\1", error) if "are required" in error else error
    return f"--{wrong[1].replace('_', '-')} is {wrong[3] or wrong[4]}: expected {EXPECTED[wrong[2]]}"


def _parser(description: str) -> ArgumentParser:
    # argparse's own formatter: jsonargparse's prints Python types beside every argument.
    return ArgumentParser(
        description=description, exit_on_error=False, allow_abbrev=False, formatter_class=argparse.HelpFormatter
    )


def _add_commands(parser: ArgumentParser, commands: Mapping[str, Command | WordCommand | Group]) -> None:
    subcommands = parser.add_subcommands(metavar="COMMAND", title="commands", description=None)
    for name, command in commands.items():
        child = _parser(command.help)
        subcommands.add_subcommand(name, child, help=command.help)
        if isinstance(command, Group):
            _add_commands(child, command.commands)
        elif isinstance(command, Command):
            command.add_arguments(child)


def _run(words: Sequence[str]) -> int:
    command = COMMANDS.get(words[0])
    if isinstance(command, WordCommand):
        return command.run(words[1:])
    args: Namespace = build_parser().parse_args(words)[words[0]]
    if isinstance(command, Group):
        command, args = command.commands[args.subcommand], args[args.subcommand]
    assert isinstance(command, Command)  # the parser has refused everything else
    return command.run(args)


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
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as stderr does: names of files need not be UTF-8
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]  # wherever it stands
    if not words or (len(words) == 1 and isinstance(COMMANDS.get(words[0]), Group)):
        words.append("--help")
    try:
        return _run(words)
    except argparse.ArgumentError as error:
        return _fail(error if debug else ValueError(_explain(str(error))), debug, hint=f"; see {_help_for(words)}")
    except (ValueError, OSError) as error:
        return _fail(error, debug)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def _fail(error: Exception, debug: bool, *, hint: str = "") -> int:
    if debug:
        raise error
    lines = str(error).splitlines()
    # A worker process sends its whole traceback; the error itself is its last line.
    text = lines[-1].partition(": ")[2] if lines[0].startswith("Caught ") else " ".join(line.strip() for line in lines)
    told = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    print(f"saccade: error: {shown(text)}{told}{hint}", file=sys.stderr)
    return 2
