"""Connections that ask for nothing are closed, those that ask are not, and one too many gets a Problem."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import h11
import httpx
import pytest
import uvicorn
from fastapi.responses import PlainTextResponse
from starlette.requests import Request

from saccade.serve import connections
from saccade.serve.connections import AnnouncedBodies, ImpatientProtocol

PATIENCE_S = 0.4
BOUND = 3
FOR_EVER_S = 60  # a busy machine may take its time


async def echo(scope, receive, send) -> None:
    """Answers with the whole body, or refuses one that comes in chunks."""
    if "transfer-encoding" in Request(scope).headers:
        await PlainTextResponse("", 411, {"Connection": "close"})(scope, receive, send)
        return
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
    return socket.create_connection(("127.0.0.1", port), timeout=FOR_EVER_S)


def seconds_until_closed(sock: socket.socket, drip: bytes = b"") -> float:
    start = time.monotonic()
    sock.settimeout(0.05)
    while time.monotonic() < start + FOR_EVER_S:
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
        assert PATIENCE_S / 2 < seconds_until_closed(sock, drip) < FOR_EVER_S


def test_half_a_request_after_an_answer_is_no_request(port):
    with connect(port) as sock:
        sock.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert sock.recv(1000).startswith(b"HTTP/1.1 200")
        sock.send(b"GET / HT")
        assert PATIENCE_S / 2 < seconds_until_closed(sock) < FOR_EVER_S


def test_slow_body_and_next_request_are_waited_for(port, monkeypatch):
    patience_s = 1.2
    monkeypatch.setattr(connections, "REQUEST_S", patience_s)
    with connect(port) as sock:
        for _ in range(2):
            sock.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n")
            for letter in b"ab":
                time.sleep(0.6 * patience_s)
                sock.send(bytes([letter]))
            answer = b""
            while not answer.endswith(b"ab"):
                part = sock.recv(1000)
                assert part, "it was closed"
                answer += part


def test_chunks_are_not_taken_apart(port):
    head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    connection = AnnouncedBodies(h11.SERVER)
    connection.receive_data(head + b"1\r\na\r\n" * 9)
    assert isinstance(connection.next_event(), h11.Request)
    assert connection.next_event() is h11.PAUSED
    connection.receive_data(b"0\r\n\r\n")
    assert connection.next_event() is h11.PAUSED
    with connect(port) as sock:
        sock.send(head + b"1\r\na\r\n" * 9)
        assert sock.recv(1000).startswith(b"HTTP/1.1 411")
        assert seconds_until_closed(sock) < FOR_EVER_S


def test_one_too_many_is_told_and_silent_ones_make_room(port, monkeypatch):
    monkeypatch.setattr(connections, "REQUEST_S", 1.2)
    address = f"http://127.0.0.1:{port}"
    with httpx.Client(timeout=FOR_EVER_S) as client, ExitStack() as silent:
        for _ in range(BOUND):
            silent.enter_context(connect(port))
        refused = client.get(address)
        assert refused.status_code == 503
        assert "too many connections" in refused.json()["detail"]
        assert int(refused.headers["Retry-After"]) > 0
        assert "default-src 'none'" in refused.headers["Content-Security-Policy"]
        give_up = time.monotonic() + FOR_EVER_S
        while client.get(address).status_code != 200:
            assert time.monotonic() < give_up
            time.sleep(0.1)
