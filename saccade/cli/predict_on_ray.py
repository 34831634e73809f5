"""`saccade predict RUN IMAGE… --ray`: the same lines, by workers on the machines of a Ray cluster."""

import os
from typing import TYPE_CHECKING

from jsonargparse import Namespace

from saccade.cli.account import Account
from saccade.cli.memory import keep_freed_memory
from saccade.cluster import connected, list_nodes
from saccade.files import shown

if TYPE_CHECKING:
    from saccade.predict.shards import ImageList

REFUSED = {
    "shard": "a cluster's workers share all images; leave --shard out",
    "overlay": "pictures are drawn on one machine; give those images without --ray",
    "crops": "pictures are drawn on one machine; give those images without --ray",
}


def refuse(args: Namespace) -> None:
    """Raise an error unless the arguments go together; nothing is read for that."""
    from saccade.predict.line_formats import format_of

    if not args.out:
        raise ValueError("--ray needs a file: name it with --out")
    for flag, why in REFUSED.items():
        if args[flag]:
            raise ValueError(f"--{flag} does not go with --ray: {why}")
    format_of(args.out)
    if args.out.exists():
        raise FileExistsError(
            f"{shown(args.out)} exists: what --ray continues are its shards, so this is whole or of another command; "
            "delete it, or give another --out"
        )


def predict_on_ray(args: Namespace, listed: "ImageList") -> int:
    """Have all images answered, and join the lines; 1 if an image failed."""
    with connected(args.ray):
        from saccade.predict.image_paths import find_images
        from saccade.predict.line_formats import format_of
        from saccade.predict.on_ray import Dealer, choose_team
        from saccade.predict.ray_worker import Question
        from saccade.predict.shard_queue import ShardQueue
        from saccade.predict.shards import join

        team = choose_team(list_nodes(), readers=args.workers, device=args.device)
        queue = ShardQueue(args.out, listed, find_images(args.images), workers=team.size, resumes=args.resume)
        question = Question(
            args.run,
            format_of(args.out),
            folder=os.getcwd(),
            fold=args.fold,
            device=args.device or (None if team.gpus else "cpu"),
            compile=args.compile,
            max_pixels=args.max_pixels,
            batch=args.batch,
            workers=team.readers,
            begin=keep_freed_memory,
        )
        told = Account(args.out, listed.count, queue.done, 0)
        dealer = Dealer(question, team, queue, resumed=told.resume, say=told.say)
        for line in told.follow(dealer.lines()):
            if line.error is not None:
                told.fail(f"{line.image}: {line.error}")
    told.failed = join(args.out).failed
    queue.delete()
    return told.finish()
