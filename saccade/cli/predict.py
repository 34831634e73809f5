"""`saccade predict RUN IMAGE…`: one line per image, as images finish."""

import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import ArgumentParser, Namespace
from jsonargparse.typing import NonNegativeInt, PositiveInt

from saccade.cli.account import Account
from saccade.cli.command import Command, add_ray
from saccade.cli.memory import keep_freed_memory
from saccade.files import shown

if TYPE_CHECKING:
    from saccade.predict.shards import ImageList, Shard


def _add_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "One line per image: label, probabilities, boxes in pixels of the file with their scores, size, milliseconds, "
        "and the decision if `saccade evaluate` has chosen a rule; or the error, and exit code 1 at the end."
    )
    parser.add_argument(
        "run",
        type=str,
        help="a run folder, one of folds too, or a folder written by save_pretrained; or the URL of one",
    )
    parser.add_argument(
        "images",
        type=str,
        nargs="+",
        help="images, folders, patterns ('photos/*.jpg'), .txt files that list images; or URLs",
    )
    parser.add_argument("--fold", type=str, help="of a run in folds, ask one model (default: the mean of all)")
    parser.add_argument("--out", type=Path, help="a .jsonl or .csv file (default: JSON lines on standard output)")
    parser.add_argument("--overlay", type=Path, help="folder for pictures of where the model looked, one per image")
    parser.add_argument("--crops", type=Path, help="folder for the patches it looked at, a folder per image")
    parser.add_argument("--shard", type=str, help="of several jobs, do the third of eight: 3/8 (then `saccade merge`)")
    add_ray(parser, "ask workers on a Ray cluster")
    parser.add_argument("--resume", action="store_true", help="continue after the last whole line of --out")
    parser.add_argument("--batch", type=PositiveInt, default=8, help="images of one size at a time (default: 8)")
    parser.add_argument(
        "--workers",
        type=NonNegativeInt,
        help="processes that decode ahead (default: half the cores; with --ray, of each worker, 1)",
    )
    parser.add_argument("--device", type=str, help="cpu, cuda, … (default: a GPU if there is one)")
    parser.add_argument("--compile", action="store_true", help="compile the feature network: pays for many images")
    parser.add_argument("--max-pixels", type=PositiveInt, help="refuse larger images (default: as in training)")


def predict(args: Namespace) -> int:
    """Predict every image; 1 if one could not be read or drawn."""
    if args.ray:
        from saccade.cli.predict_on_ray import predict_on_ray, refuse

        refuse(args)
        return predict_on_ray(args, _list_images(args.images))
    from saccade.images.guarded import SUPPORTED, Guard

    # It starts while this process imports torch.
    with Guard().start() if SUPPORTED else nullcontext() as guard:
        return _check_and_predict(args, guard)


def _check_and_predict(args: Namespace, guard: Any) -> int:
    from saccade.predict.line_file import refuse_existing
    from saccade.predict.line_formats import format_of
    from saccade.predict.shards import Shard

    form = format_of(args.out or Path("-.jsonl"))
    for flag in ("resume", "shard"):
        if args[flag] and not args.out:
            raise ValueError(f"--{flag} needs a file: name it with --out")
    shard = Shard.parse(args.shard) if args.shard else Shard(1, 1)
    if args.shard:
        args.out = shard.file(args.out)
    if args.out and not args.resume:
        refuse_existing(args.out)
    _refuse_inside(args)
    images = _list_images(args.images)
    keep_freed_memory()
    try:
        return _predict(args, form, images, shard, guard)
    except BrokenPipeError:  # whoever read the lines has enough of them
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _list_images(sources: Sequence[str]) -> "ImageList":
    """All of them, or a refusal where there is none."""
    from saccade.predict.image_paths import find_images, is_list, refuse_nothing
    from saccade.predict.shards import ImageList

    refuse_nothing(sources)
    images = ImageList.of(find_images(sources))
    if not images.count:
        named = ", ".join(f"{source} (the list is empty)" if is_list(source) else source for source in sources)
        raise ValueError(
            f"no images in {named}: expected files with an image's suffix, such as .jpg, or a list with one path a line"
        )
    return images


def _refuse_inside(args: Namespace) -> None:
    """Pictures must not land among the images that are being found."""
    from saccade.predict.image_paths import may_find

    for flag, place in (("--overlay", args.overlay), ("--crops", args.crops)):
        if place and (inside := [source for source in args.images if may_find(source, place)]):
            raise ValueError(f"{flag} {place} lies in {inside[0]}, among the images: give a folder elsewhere")


def _predict(args: Namespace, form: Any, listed: "ImageList", shard: "Shard", guard: Any) -> int:
    from saccade.predict import Failure, Predictor
    from saccade.predict.image_paths import common_folder, find_images
    from saccade.predict.line_file import Progress, Writer, open_alone, resume
    from saccade.predict.shards import Facts, finish

    options = {"device": args.device, "compile": args.compile, "max_pixels": args.max_pixels}
    predictor = Predictor(args.run, fold=args.fold, guard=guard, **options)
    album = None
    if args.overlay or args.crops:
        from saccade.predict.pictures import Album  # and with it matplotlib

        album = Album(common_folder(args.images), args.overlay, args.crops)
    images, before = shard.share(find_images(args.images), listed), Progress()
    total = len(shard.places(listed))
    opened: Any = open_alone(args.out, resumes=args.resume) if args.out else nullcontext(sys.stdout.buffer)
    with opened as file:
        writer = Writer(file, form(predictor.classes, decides=predictor.rule is not None))
        if args.out:
            before = resume(file, writer.form, images, args.out)
            writer.begin()
        told = Account(args.out, total, before.done, before.failed)
        workers = 0 if total - before.done == 1 else args.workers  # for one image no process is worth its start
        options = {"batch": args.batch, "workers": workers, "crops": album is not None, "picture": bool(args.overlay)}
        for image, outcome in told.follow(predictor.stream(images, **options)):
            if isinstance(outcome, Failure):
                told.fail(f"{image}: {outcome.error}")
            elif album:
                with told.drawing(image):
                    album.draw(image, outcome)
            writer.write(image, outcome)
    if args.shard:
        finish(args.out, Facts(listed, list(predictor.classes), predictor.rule is not None))
    return told.finish()


PREDICT = Command("answer for images of any size: label, probabilities, boxes", _add_arguments, predict)


def _add_merge_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "Join the lines of `saccade predict … --out OUT --shard 1/8`, 2/8, and so on: every image once, in the order "
        "of one run; exit code 1 if some of the images failed."
    )
    parser.add_argument("out", type=Path, help="the --out of the shards, such as answers.jsonl")


def merge(args: Namespace) -> int:
    """Join shards; 1 if one of their images failed."""
    from saccade.predict.shards import join

    if args.out.exists():
        raise FileExistsError(f"{args.out} exists: delete it, or join the shards elsewhere")
    joined = join(args.out)
    print(f"{joined.done} lines → {shown(args.out)}", file=sys.stderr)
    if joined.failed:
        print(f"{joined.failed} of {joined.done} images failed", file=sys.stderr)
    return 1 if joined.failed else 0


MERGE = Command("join the files of `saccade predict --shard`", _add_merge_arguments, merge)
