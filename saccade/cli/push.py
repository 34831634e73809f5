"""`saccade push RUN USER/MODEL`: the trained model, with its card, on a hub."""

from pathlib import Path

from jsonargparse import ArgumentParser, Namespace

from saccade.cli.command import Command


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="a run folder, or one written by save_pretrained")
    parser.add_argument("name", type=str, help="USER/MODEL on the hub, or USER/MODEL@BRANCH")
    parser.add_argument("--private", action="store_true", help="only you see it, if it is new")
    parser.add_argument("--no-picture", action="store_true", help="without the test image that its card shows")


def push(args: Namespace) -> int:
    """Write the card anew, and send it with the model."""
    from rich.console import Console

    from saccade.model_card import CARD
    from saccade.places import send_to_hub
    from saccade.report.card import PICTURE, write_model_card
    from saccade.runs import RunFolder, find_model_folder
    from saccade.system import FILES, MESSAGE, read_config

    folder = find_model_folder(args.run)
    read_config(folder)  # what is damaged stays here
    if RunFolder(args.run).is_run:
        write_model_card(args.run, picture=not args.no_picture)
    sent = [name for name in (*FILES, CARD, PICTURE) if (folder / name).is_file()]
    if args.no_picture and PICTURE in sent:
        sent.remove(PICTURE)
    say = Console(soft_wrap=True, highlight=False, markup=False).print
    say(f"sending {', '.join(sent)} of {folder}")
    say(f"sent: {send_to_hub(folder, args.name, sent, message=MESSAGE, private=args.private or None)}")
    return 0


PUSH = Command("send a model and its card to the Hugging Face hub", _add_arguments, push)
