"""`saccade serve RUN`: a page and a JSON API for a trained model."""

import importlib.util
import socket
from pathlib import Path

from jsonargparse import ArgumentParser, Namespace
from jsonargparse.typing import NonNegativeInt, PositiveFloat, restricted_number_type

from saccade.cli.command import Command

NEEDS = ("fastapi", "uvicorn", "python_multipart")
LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")
MAX_CONNECTIONS = 100  # beside the queue, for tiles and crops

Port = restricted_number_type("Port", int, [(">=", 0), ("<=", 65535)])


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="a run folder, or one that save_pretrained wrote")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1, this machine only)"
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
    missing = [name for name in NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(f"saccade serve needs {', '.join(missing)}: pip install 'saccade[serve]'")
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
        predictor = Predictor(args.run, device=args.device, max_pixels=limits.max_pixels)
        hosts = LOOPBACK if args.host in LOOPBACK else ("*",)
        app = create_app(predictor, name=args.run.resolve().name, limits=limits, hosts=hosts)
        _greet(sock)
        config = uvicorn.Config(
            app,
            http=ImpatientProtocol,
            log_level="warning",
            server_header=False,
            limit_concurrency=MAX_CONNECTIONS + args.queue,
        )
        uvicorn.Server(config).run(sockets=[sock])
    return 0


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket, or an OSError that says what to do."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        # Python adds to the reason what it tried to bind, which is already said here.
        reason = (error.strerror or str(error)).partition(" (while")[0]
        raise OSError(f"cannot listen on {host}, port {port} ({reason}): choose another --port or --host") from error


def _greet(sock: socket.socket) -> None:
    host, port = sock.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    print(f"drop an image on http://{shown}:{port} (Ctrl+C to stop)", flush=True)


SERVE = Command("serve a model to browsers and programs", _add_arguments, serve)
