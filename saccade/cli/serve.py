"""`saccade serve RUN`: a page and a JSON API for a trained model."""

import math
from pathlib import Path

from jsonargparse import ArgumentParser, Namespace
from jsonargparse.typing import NonNegativeInt, PositiveFloat

from saccade.cli.command import Command
from saccade.cli.listening import add_entry_arguments, guard_entry, listen
from saccade.cli.memory import return_freed_memory
from saccade.extras import require

MAX_CONNECTIONS = 100  # beside the queue, for tiles and crops


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="a run folder, or one that save_pretrained wrote")
    parser.add_argument("--compare", type=Path, help="a second model, which the page shows beside the first")
    parser.add_argument("--example", type=Path, help="an image that the page offers to try")
    add_entry_arguments(parser)
    parser.add_argument("--max-mb", type=PositiveFloat, default=50.0, help="largest upload (default: 50)")
    parser.add_argument(
        "--max-megapixels", type=PositiveFloat, default=100.0, help="largest image that is decoded whole (default: 100)"
    )
    parser.add_argument(
        "--max-slide-megapixels",
        type=PositiveFloat,
        default=5000.0,
        help="largest tiled pyramid, of which only parts are read (default: 5000)",
    )
    parser.add_argument("--timeout", type=PositiveFloat, default=60.0, help="seconds for a request (default: 60)")
    parser.add_argument("--queue", type=NonNegativeInt, default=8, help="requests that may wait (default: 8)")
    parser.add_argument("--device", help="cpu, cuda, … (default: the predictor's own choice)")


def serve(args: Namespace) -> int:
    """Serve a model until Ctrl+C."""
    require("serve", "saccade serve")
    import uvicorn

    from saccade.predict import Predictor
    from saccade.serve import Limits, create_app
    from saccade.serve.connections import ImpatientProtocol

    limits = Limits(
        max_bytes=round(args.max_mb * 1e6),
        max_pixels=round(args.max_megapixels * 1e6),
        max_slide_pixels=round(args.max_slide_megapixels * 1e6),
        timeout_s=args.timeout,
        queue=args.queue,
    )
    with listen(args.host, int(args.port)) as sock:
        entry = guard_entry(args, sock)
        return_freed_memory()
        first, *others = _name_models(args)
        made = {name: Predictor(run, device=args.device, max_pixels=limits.max_pixels) for name, run in others}
        app = create_app(
            Predictor(first[1], device=args.device, max_pixels=limits.max_pixels),
            name=first[0],
            limits=limits,
            hosts=entry.hosts,
            token=entry.token,
            others=made,
            example=args.example,
        )
        print(f"drop an image on {entry.address} (Ctrl+C to stop)", flush=True)
        config = uvicorn.Config(
            app,
            http=ImpatientProtocol,
            log_level="warning",
            server_header=False,
            limit_concurrency=MAX_CONNECTIONS + args.queue,
            timeout_graceful_shutdown=math.ceil(args.timeout),
        )
        uvicorn.Server(config).run(sockets=[sock])
    return 0


def _name_models(args: Namespace) -> list[tuple[str, Path]]:
    """The models that are served, each with a name of its own."""
    if args.example and not args.example.is_file():
        raise FileNotFoundError(f"--example {args.example}: no such file; give an image")
    if args.compare is None:
        return [(args.run.resolve().name, args.run)]
    names = [path.resolve().name for path in (args.run, args.compare)]
    if names[0] == names[1]:
        names = [str(args.run), str(args.compare)]
    if names[0] == names[1]:
        raise ValueError(f"--compare {args.compare} is the model itself: give another run folder")
    return list(zip(names, (args.run, args.compare), strict=True))


SERVE = Command("serve a model to browsers and programs", _add_arguments, serve)
