"""Connections that ask for nothing are closed, those that ask are not, and one too many gets a Problem."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest
import uvicorn
from fastapi.responses import PlainTextResponse
from starlette.requests import Request

from saccade.serve import connections
from saccade.serve.connections import ImpatientProtocol

PATIENCE_S = 0.4
BOUND = 3


async def echo(scope, receive, send) -> None:
    """Answers with the whole body."""
    body = await Request(scope, receive).body()
    await PlainTextResponse(body)(scope, receive, send)


@pytest.fixture
def port(monkeypatch) -> Iterator[int]:
    monkeypatch.setattr(connections, "REQUEST_S", PATIENCE_S)
    config = uvicorn.Config(
        echo, http=ImpatientProtocol, lifespan="off", log_level="warning", limit_concurrency=BOUND, timeout_keep_alive=9
    )
    with socket.create_server(("127.0.0.1", 0)) as sock:
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        yield sock.getsockname()[1]
        server.should_exit = True
        thread.join()


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=5)


def seconds_until_closed(sock: socket.socket, drip: bytes = b"") -> float:
    start = time.monotonic()
    sock.settimeout(0.05)
    while time.monotonic() < start + 3:
        try:
            if not sock.recv(1000):
                break
        except TimeoutError:
            sock.send(drip)
        except ConnectionError:
            break
    return time.monotonic() - start


@pytest.mark.parametrize(("first", "drip"), [(b"", b""), (b"GET / HTTP/1.1\r\nX: ", b"x")])
def test_connection_without_a_request_is_closed(port, first, drip):
    with connect(port) as sock:
        sock.send(first)
        assert PATIENCE_S / 2 < seconds_until_closed(sock, drip) < 5 * PATIENCE_S


def test_half_a_request_after_an_answer_is_no_request(port):
    with connect(port) as sock:
        sock.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert sock.recv(1000).startswith(b"HTTP/1.1 200")
        sock.send(b"GET / HT")
        assert PATIENCE_S / 2 < seconds_until_closed(sock) < 5 * PATIENCE_S


def test_slow_body_and_next_request_are_waited_for(port):
    with connect(port) as sock:
        for _ in range(2):
            sock.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n")
            for letter in b"abcd":
                time.sleep(PATIENCE_S / 2)
                sock.send(bytes([letter]))
            answer = b""
            while not answer.endswith(b"abcd"):
                part = sock.recv(1000)
                assert part, "it was closed"
                answer += part


def test_one_too_many_is_told_and_silent_ones_make_room(port):
    with ExitStack() as silent:
        for _ in range(BOUND):
            silent.enter_context(connect(port))
        time.sleep(0.05)
        refused = httpx.get(f"http://127.0.0.1:{port}")
        assert refused.status_code == 503
        assert "too many connections" in refused.json()["detail"]
        assert int(refused.headers["Retry-After"]) > 0
        assert "default-src 'none'" in refused.headers["Content-Security-Policy"]
        time.sleep(2 * PATIENCE_S)
        assert httpx.get(f"http://127.0.0.1:{port}").status_code == 200
