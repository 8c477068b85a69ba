"""What holds for every request and every answer: how much may be sent, and what browsers may do with what they get."""

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
    "Referrer-Policy": "no-referrer",  # an address is a secret, and must not be told to where its links lead
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_RAW = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
_TOO_LARGE = f"A request has at most {MAX_BODY_BYTES >> 20} MB; send less at once."


class Edge:
    """The outermost layer, in plain ASGI: it costs a few microseconds and never buffers a stream."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        passage = _Passage(scope, receive, send)
        if not passage.is_too_large:
            await self._app(scope, passage.limited, passage.sealed)
        if passage.is_too_large:
            await passage.refuse()


class _Passage:
    """One request on its way in and its answer on its way out."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._taken = 0
        self._has_begun = False
        self.is_too_large = _announced(scope) > MAX_BODY_BYTES

    async def limited(self) -> Message:
        """What was sent; once that is too much, that nothing follows."""
        message = await self._receive()
        self._taken += len(message.get("body", b""))
        if self._taken > MAX_BODY_BYTES and not self._has_begun:
            self.is_too_large = True
            return {"type": "http.disconnect"}
        return message

    async def sealed(self, message: Message) -> None:
        """The answer with our headers; none at all to a request that was cut off."""
        if self.is_too_large:
            return
        if message["type"] == "http.response.start":
            self._has_begun = True
            message["headers"] = [*message.get("headers", ()), *_RAW]
        await self._send(message)

    async def refuse(self) -> None:
        self.is_too_large = False
        await JSONResponse({"error": _TOO_LARGE}, 413, {"Connection": "close"})(self._scope, self._receive, self.sealed)


def _announced(scope: Scope) -> int:
    told = Headers(scope=scope).get("content-length", "0")
    return int(told) if told.isascii() and told.isdigit() else 0
