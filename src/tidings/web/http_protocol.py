"""HTTP connections with limits on size and time.

uvicorn's parser limits neither headers nor time, so a client could hold memory and connections at no cost. A connection
that waits for its client has a deadline; `close_overdue` looks at all connections once per second, which costs less
than a timer per request. A connection that waits for the application, such as a live event stream, has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from enum import Enum
from typing import Any

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.utils import get_remote_addr
from uvicorn.server import ServerState

from tidings.web.connection_limits import ConnectionCount

_SWEEP_S = 1.0
_HEADER_LINE_BYTES = 4  # a colon, a space and the end of the line
_TIMEOUT, _BODY_TOO_LARGE, _HEADERS_TOO_LARGE, _OVERLOAD = 408, 413, 431, 503
_STILL_SENDING = (_BODY_TOO_LARGE, _HEADERS_TOO_LARGE)
_REASONS = {
    _TIMEOUT: b"Request Timeout",
    _BODY_TOO_LARGE: b"Content Too Large",
    _HEADERS_TOO_LARGE: b"Request Header Fields Too Large",
    _OVERLOAD: b"Service Unavailable",
}


class _Phase(Enum):
    """What is being received."""

    IDLE, HEADERS, BODY = range(3)
    REST = 3  # of a request that was answered early
    NOTHING = 4  # the connection was refused and is closed when the client has read why


class LimitedProtocol(HttpToolsProtocol):
    """One connection. The parser's callbacks `on_…` follow the phases of a request."""

    def __init__(
        self,
        count: ConnectionCount,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._count, self._limits = count, count.limits
        self._client: str | None = None
        self._phase = _Phase.IDLE
        self._deadline: float | None = None
        self._header_bytes = self._request_bytes = 0
        self._closes_after_request = False
        self._unsent_bytes, self._write_deadline = 0, 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        address = get_remote_addr(transport)
        self._client = self._count.add(address[0] if address else None)
        if self._client is None:
            self.transport = transport
            self._refuse(_OVERLOAD)
            return
        super().connection_made(transport)
        self._expect_within(self._limits.header_s)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._client is not None:
            self._count.remove(self._client)
            self._client = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing() or self._phase is _Phase.NOTHING:
            return
        if self._phase is _Phase.BODY and self._deadline is not None:
            latest = self.loop.time() + self._limits.body_s
            self._deadline = min(self._deadline + len(data) / self._limits.min_bytes_per_s, latest)
        elif self._deadline is None:
            self._expect_within(self._limits.header_s)
        self._request_bytes += len(data)
        super().data_received(data)
        self._check_size()

    def _check_size(self) -> None:
        """Refuse a request whose headers, trailers or bytes are too many, whether or not they are complete."""
        has_headers = self._phase in (_Phase.BODY, _Phase.REST)
        unfinished_bytes = 0 if has_headers else self._request_bytes
        if max(self._header_bytes, unfinished_bytes) > self._limits.header_bytes:
            self._refuse(_HEADERS_TOO_LARGE)
        elif self._request_bytes > self._limits.request_bytes:
            self._refuse(_BODY_TOO_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._phase, self._header_bytes = _Phase.HEADERS, 0

    def on_url(self, url: bytes) -> None:
        self._header_bytes += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value) + _HEADER_LINE_BYTES
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._header_bytes > self._limits.header_bytes or len(self.pipeline) >= self._limits.pipelined:
            self._refuse(_HEADERS_TOO_LARGE)
            raise httptools.HttpParserError  # ends parsing of what was received
        super().on_headers_complete()
        self._phase = _Phase.BODY
        self._expect_within(self._limits.body_s)
        self._closes_after_request = not self.cycle.keep_alive
        self.cycle.keep_alive = True  # until the request is complete: closing earlier would lose an early response

    def on_message_complete(self) -> None:
        was_answered = self._phase is _Phase.REST
        self._phase, self._deadline, self._request_bytes = _Phase.IDLE, None, 0
        if self._closes_after_request:
            self.cycle.keep_alive = False
        super().on_message_complete()
        if was_answered and self._closes_after_request:
            self.transport.close()
        elif was_answered:
            self._expect_within(self._limits.idle_s)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._phase is _Phase.BODY and self.cycle.response_complete:
            self._phase = _Phase.REST
            self._expect_within(self._limits.linger_s)

    def send_400_response(self, msg: str) -> None:
        if self._phase is not _Phase.NOTHING:
            super().send_400_response(msg)

    def close_if_overdue(self, now: float) -> None:
        """Close the connection if its client is late with a request, or with reading a response."""
        if self._phase is not _Phase.NOTHING and self.flow.read_paused:  # the application has enough for now
            self._expect_within(self._limits.body_s)
        if self._deadline is None or now <= self._deadline:
            is_overdue = self._is_read_too_slowly(now)
        else:
            is_overdue = self._phase is _Phase.NOTHING
            self._refuse(_TIMEOUT)
        if is_overdue:
            self.transport.abort()

    def _is_read_too_slowly(self, now: float) -> bool:
        unsent_bytes = self.transport.get_write_buffer_size()
        latest = now + self._limits.response_s
        if unsent_bytes == 0 or self._unsent_bytes == 0:
            self._write_deadline = latest
        elif unsent_bytes < self._unsent_bytes:
            credit_s = (self._unsent_bytes - unsent_bytes) / self._limits.min_bytes_per_s
            self._write_deadline = min(self._write_deadline + credit_s, latest)
        self._unsent_bytes = unsent_bytes
        return now > self._write_deadline

    def _expect_within(self, seconds: float) -> None:
        self._deadline = self.loop.time() + seconds

    def _refuse(self, status: int) -> None:
        """Drop the request, respond unless a response was started, and close the connection.

        A client that is still sending gets time to read the response: closing at once would reset the connection.
        """
        if self._phase is _Phase.NOTHING:
            return
        if self._can_respond(status):
            head = b"HTTP/1.1 %d %b\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            self.transport.write(head % (status, _REASONS[status]))
        if self._phase is _Phase.BODY:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._phase = _Phase.NOTHING
        if status in _STILL_SENDING:
            self._expect_within(self._limits.linger_s)
        else:
            self.transport.close()

    def _can_respond(self, status: int) -> bool:
        """Return whether the client expects a response to the current request next."""
        if self._phase is _Phase.BODY:
            return not self.cycle.response_started and not self.pipeline
        is_first = self.cycle is None or self.cycle.response_complete
        return is_first and (self._phase is _Phase.HEADERS or status == _OVERLOAD)


async def close_overdue(connections: Iterable[Any], max_unsent_bytes: int) -> None:
    """Close overdue connections, and those with the largest unread responses if all together are too large; for ever.

    A client may read slowly enough to keep hundreds of responses of ten megabytes in memory.
    """
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(_SWEEP_S)
        for connection in list(connections):
            connection.close_if_overdue(loop.time())
        left_bytes = max_unsent_bytes
        for connection in sorted(connections, key=_count_unsent):
            left_bytes -= _count_unsent(connection)
            if left_bytes < 0:
                connection.transport.abort()


def _count_unsent(connection: Any) -> int:
    return int(connection.transport.get_write_buffer_size())
