"""Middleware for every request: limits the size of bodies and adds the security headers."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 8 << 20
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
_HEADERS = {
    "Content-Security-Policy": _CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",  # links must not reveal the secret URL they were read at
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_RAW_HEADERS = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
_TOO_LARGE = f"The request body is too large (at most {MAX_BODY_BYTES >> 20} MB). Send less per request."


class LimitsMiddleware:
    """The outermost layer, in plain ASGI: it costs a few microseconds and never buffers a stream."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send)
        if not exchange.is_too_large:
            await self._app(scope, exchange.receive, exchange.send)
        if exchange.is_too_large:
            await exchange.reject()


class _Exchange:
    """One request and its response."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._received_bytes = 0
        self._has_started = False
        self.is_too_large = _content_length(scope) > MAX_BODY_BYTES

    async def receive(self) -> Message:
        """Return the next message; a disconnect if the body is too large."""
        message = await self._receive()
        self._received_bytes += len(message.get("body", b""))
        if self._received_bytes > MAX_BODY_BYTES and not self._has_started:
            self.is_too_large = True
            return {"type": "http.disconnect"}
        return message

    async def send(self, message: Message) -> None:
        """Send a message with the security headers; drop the response to a rejected request."""
        if self.is_too_large:
            return
        if message["type"] == "http.response.start":
            self._has_started = True
            message["headers"] = [*message.get("headers", ()), *_RAW_HEADERS]
        await self._send(message)

    async def reject(self) -> None:
        self.is_too_large = False
        await JSONResponse({"error": _TOO_LARGE}, 413, {"Connection": "close"})(self._scope, self._receive, self.send)


def _content_length(scope: Scope) -> int:
    value = Headers(scope=scope).get("content-length", "0")
    return int(value) if value.isascii() and value.isdigit() else 0
