"""`saccade data …`: check a data set, write it as shards, or make one."""

from pathlib import Path

from jsonargparse import ArgumentParser, Namespace
from jsonargparse.typing import NonNegativeInt, PositiveFloat, PositiveInt

from saccade.cli.command import Command, Group
from saccade.files import shown


def _add_set_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("path", type=str, help="a folder, a .csv or .tsv table, an archive, or the URL of shards")
    parser.add_argument("--seed", type=NonNegativeInt, default=0, help="for splits that are drawn (default: 0)")
    parser.add_argument("--group", type=str, help="column of the table, or expression on names, that tells groups")


def _add_check_arguments(parser: ArgumentParser) -> None:
    _add_set_arguments(parser)
    parser.add_argument("--task", type=str, help="what labels mean: single, multi, ordinal or regression")
    parser.add_argument("--folds", type=PositiveInt, help="draw so many folds, and check those")
    parser.add_argument("--workers", type=PositiveInt, help="files decoded at once (default: one per core)")
    parser.add_argument("--max-pixels", type=PositiveInt, help="refuse larger images (default: 268 million)")
    parser.add_argument(
        "--mpp", type=PositiveFloat, help="name slides that cannot be seen at so many microns per pixel"
    )
    parser.add_argument("--cache", type=Path, help="where to unpack an archive (default: beside it)")


def check_data(args: Namespace) -> int:
    """Decode a whole data set and say what is in it; 1 if a file cannot be read."""
    from rich.console import Console

    from saccade.data.inspection import Report, examine, follow, show
    from saccade.data.loading import load
    from saccade.images.decode import MAX_PIXELS

    console = Console()
    records = load(args.path, seed=args.seed, cache=args.cache, group=args.group, folds=args.folds, labels=args.task)
    limit = args.max_pixels or MAX_PIXELS
    findings = examine(records, workers=args.workers, max_pixels=limit, mpp=args.mpp, stream=True)
    report = Report(records, tuple(follow(findings, len(records.records), console)), args.mpp)
    show(report, console)
    return 1 if report.bad() else 0


def _add_shard_arguments(parser: ArgumentParser) -> None:
    _add_set_arguments(parser)
    parser.add_argument("out", type=Path, help="the folder to write; what was stopped resumes where it was")
    parser.add_argument("--task", type=str, help="what labels mean: single, multi, ordinal or regression")
    parser.add_argument("--size", type=str, default="256MB", help="bytes in a shard (default: 256MB)")


def shard_data(args: Namespace) -> int:
    """Write a data set as shards."""
    from rich.console import Console

    from saccade.data.loading import load, load_as_given
    from saccade.data.sharding import plan_shards, read_size, write_shards

    console, size = Console(), read_size(args.size)
    records = load(args.path, seed=args.seed, group=args.group, labels=args.task)
    for note in records.notes:
        console.print(shown(note), soft_wrap=True, markup=False, highlight=False)
    planned = plan_shards(records, size, seed=args.seed)
    for number, shard in enumerate(write_shards(records, args.out, planned), start=1):
        told = f"{number} of {len(planned)}: {shard.name}, {len(shard.images):,} images"
        console.print(told, soft_wrap=True, highlight=False)
    if load_as_given(args.out, labels=args.task).task != records.task:  # a folder's name may look like several labels
        console.print(f"labels look like something else in the table: train with --task {records.task}")
    return 0


def _add_make_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", type=str, help="signs, billiard, megapixel-mnist or megapixel-mnist-images")
    parser.add_argument("out", type=Path, help="the folder to write; what was stopped resumes where it was")
    parser.add_argument("--count", type=PositiveInt, help="number of images")
    parser.add_argument("--size", type=PositiveInt, nargs="+", help="height and width in pixels, or one for both")
    parser.add_argument("--seed", type=NonNegativeInt, default=0, help="another seed, other images (default: 0)")
    parser.add_argument("--workers", type=PositiveInt, help="processes (default: one per core)")
    parser.add_argument("--source", type=Path, help="folder of the MNIST idx files, for the last two")


def make_data(args: Namespace) -> int:
    """Generate a data set."""
    from saccade.data.generate import make

    if args.size and len(args.size) > 2:
        raise ValueError(f"--size takes a height and a width, or one number for both; got {args.size}")
    size = args.size and (args.size[0], args.size[-1])
    make(args.name, args.out, count=args.count, size=size, seed=args.seed, workers=args.workers, source=args.source)
    return 0


DATA = Group(
    "check, shard or make a data set",
    {
        "check": Command("decode every image, count, find what is wrong", _add_check_arguments, check_data),
        "shard": Command("write a data set as tars, to train from anywhere", _add_shard_arguments, shard_data),
        "make": Command("generate a data set", _add_make_arguments, make_data),
    },
)
