"""Connections that ask for nothing are closed, one too many is told so, and bodies in chunks are not read.

uvicorn counts every open connection against its bound, but waits for ever for the first request of one, and for the
rest of a request's head. So whoever opened enough of them and kept silent would shut all others out.

A body of unknown length comes in chunks, of one byte if the client likes: to take a megabyte of those apart keeps the
server from everything else for seconds.
"""

import asyncio
from typing import Any

import h11
from fastapi.responses import JSONResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

from saccade.serve.headers import SafeHeaders
from saccade.serve.limits import RETRY_S

REQUEST_S = 10  # from the connection, or from the last answer, to the whole head of the next request
FLUSH_S = 60  # for an answer that is still being sent by then
HEAD_BYTES = 2**16  # of a request's head

_FULL = SafeHeaders(
    JSONResponse(
        {"detail": f"too many connections are open: try again in {RETRY_S} s"},
        status_code=503,
        headers={"Retry-After": str(RETRY_S), "Connection": "close"},
    )
)


class AnnouncedBodies(h11.Connection):
    """A connection that goes no further than the head of a request whose body has no announced length."""

    stopped = False

    def next_event(self) -> Any:
        """What has arrived."""
        if self.stopped:
            return h11.PAUSED
        event = super().next_event()
        if isinstance(event, h11.Request):
            self.stopped = any(name == b"transfer-encoding" for name, _ in event.headers)
        return event


class ImpatientProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, for connections that ask for something; `limit_concurrency` bounds them."""

    app: Any

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, and wait for its first request."""
        super().connection_made(transport)
        self.conn = AnnouncedBodies(h11.SERVER, HEAD_BYTES)
        bound, self.limit_concurrency = self.limit_concurrency, None  # uvicorn's own refusal is not JSON
        if bound is not None and len(self.connections) > bound:
            self.app = _FULL
        self._wait_for_request()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._wait_for_request()
        super().on_response_complete()

    def _wait_for_request(self) -> None:
        self.loop.call_later(REQUEST_S, self._give_up, self.cycle)

    def _give_up(self, last: object) -> None:
        if self.cycle is last:  # every request makes a new one
            self.transport.close()
            # Closing waits until everything is sent, which a client that does not read can put off.
            self.loop.call_later(FLUSH_S, self.transport.abort)
