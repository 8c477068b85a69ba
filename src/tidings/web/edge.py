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


class _TooLarge(Exception):
    """More was sent than announced, or than may be."""


class Edge:
    """The outermost layer, in plain ASGI: it costs a few microseconds and never buffers a stream."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        taken, begun = 0, False

        async def limited() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > MAX_BODY_BYTES:
                raise _TooLarge
            return message

        async def sealed(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message["headers"] = [*message.get("headers", ()), *_RAW]
            await send(message)

        try:
            if _announced(scope) > MAX_BODY_BYTES:
                raise _TooLarge
            await self._app(scope, limited, sealed)
        except _TooLarge:
            if not begun:
                refusal = JSONResponse({"error": _TOO_LARGE}, 413, {"Connection": "close"})
                await refusal(scope, receive, sealed)


def _announced(scope: Scope) -> int:
    told = Headers(scope=scope).get("content-length", "0")
    return int(told) if told.isascii() and told.isdigit() else 0
