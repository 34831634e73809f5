"""Where a page is served, and who may ask: the options that `saccade serve` and `saccade label` share."""

import ipaddress
import secrets
import socket
from typing import NamedTuple

from jsonargparse import ArgumentParser, Namespace
from jsonargparse.typing import restricted_number_type

LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")
MIN_TOKEN = 16  # letters

Port = restricted_number_type("Port", int, [(">=", 0), ("<=", 65535)])


def add_entry_arguments(parser: ArgumentParser) -> None:
    """Address, names and token."""
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


class Entry(NamedTuple):
    """Where the page is, the names under which it may be asked for, and the token that is asked for."""

    address: str
    hosts: tuple[str, ...]
    token: str | None


def guard_entry(args: Namespace, sock: socket.socket) -> Entry:
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


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, or an OSError that says what to do."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        # Python adds to the reason what it tried to bind, which is already said here.
        reason = (error.strerror or str(error)).partition(" (while")[0]
        raise OSError(f"cannot listen on {host}, port {port} ({reason}): choose another --port or --host") from error
