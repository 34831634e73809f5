"""`saccade serve RUN`: a page and a JSON API for a trained model."""

import ipaddress
import math
import secrets
import socket
from pathlib import Path
from typing import NamedTuple

from jsonargparse import ArgumentParser, Namespace
from jsonargparse.typing import NonNegativeInt, PositiveFloat, restricted_number_type

from saccade.cli.command import Command
from saccade.cli.memory import return_freed_memory
from saccade.extras import require

LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")
MIN_TOKEN = 16  # letters
MAX_CONNECTIONS = 100  # beside the queue, for tiles and crops

Port = restricted_number_type("Port", int, [(">=", 0), ("<=", 65535)])


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="a run folder, or one that save_pretrained wrote")
    parser.add_argument("--compare", type=Path, help="a second model, which the page shows beside the first")
    parser.add_argument("--example", type=Path, help="an image that the page offers to try")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1, this machine only)"
    )
    parser.add_argument(
        "--allowed-host",
        type=str,
        nargs="+",
        default=[],
        help="names under which the server may be asked, besides 127.0.0.1, localhost and --host",
    )
    parser.add_argument(
        "--token",
        type=str,
        help="what every request must bring along (default: none on this machine only, beyond it one that is made up)",
    )
    parser.add_argument("--port", type=Port, default=8000, help="default: 8000; 0 takes a free one")
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
    with _listen(args.host, int(args.port)) as sock:
        entry = _guard_entry(args, sock)
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


class Entry(NamedTuple):
    """Where the page is, the names under which it may be asked for, and the token that is asked for."""

    address: str
    hosts: tuple[str, ...]
    token: str | None


def _guard_entry(args: Namespace, sock: socket.socket) -> Entry:
    """Who may ask: beyond this machine, those who know the token, for a host by its name."""
    address, port = sock.getsockname()[:2]
    bound, token = ipaddress.ip_address(address), args.token
    if token is not None and len(token) < MIN_TOKEN:
        raise ValueError(f"--token has {len(token)} letters, expected at least {MIN_TOKEN}; without it one is made up")
    if bound.is_unspecified and not args.allowed_host:
        raise ValueError(
            f"--host {args.host} lets others in: say with --allowed-host under which names they may ask, such as "
            f"--allowed-host {socket.gethostname()}"
        )
    names = [*args.allowed_host, *([] if bound.is_unspecified else [args.host])]
    if token is None and not bound.is_loopback:
        token = secrets.token_urlsafe(24)
    shown = f"[{names[0]}]" if ":" in names[0] else names[0]
    # One that was given is known to who gave it, and need not stand in a log.
    ticket = "" if token is None else f"/?token={'…' if args.token else token}"
    return Entry(f"http://{shown}:{port}{ticket}", (*LOOPBACK, *names), token)


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket, or an OSError that says what to do."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        # Python adds to the reason what it tried to bind, which is already said here.
        reason = (error.strerror or str(error)).partition(" (while")[0]
        raise OSError(f"cannot listen on {host}, port {port} ({reason}): choose another --port or --host") from error


SERVE = Command("serve a model to browsers and programs", _add_arguments, serve)
