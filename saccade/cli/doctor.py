"""`saccade doctor`: what an issue report should contain."""

from jsonargparse import ArgumentParser, Namespace

from saccade.cli.command import Command


def _no_arguments(parser: ArgumentParser) -> None:
    pass


def doctor(args: Namespace) -> int:
    """Say what is installed and how it does; 1 if an accelerator does not answer as the processor does."""
    from saccade.doctor import examine
    from saccade.files import shown

    well = True
    for line in examine():
        print(f"{line.name:16} {shown(line.found)}", flush=True)  # plain, so that it can be copied as it is
        well &= line.well
    return 0 if well else 1


DOCTOR = Command("say what is installed, for issue reports, and compare devices", _no_arguments, doctor)
