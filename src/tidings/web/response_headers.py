"""Middleware for every response: the security headers, and no caching of private responses."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types tidings-worker"  # of live.js: it creates no other address than that of the worker
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
_PRIVATE_PATHS = ("/api", "/read")
_CACHE_CONTROL, _NO_STORE = b"cache-control", b"no-store"


class ResponseHeaders:
    """The outermost layer, in plain ASGI: it costs a few microseconds and never buffers a stream."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_private = scope["type"] == "http" and scope["path"].startswith(_PRIVATE_PATHS)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_RAW_HEADERS]
                if is_private:
                    _forbid_caching(message["headers"])
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _forbid_caching(headers: list[tuple[bytes, bytes]]) -> None:
    """Add `no-store` unless the route decided: feeds let their reader keep a copy, which it must revalidate."""
    if all(name.lower() != _CACHE_CONTROL for name, _ in headers):
        headers.append((_CACHE_CONTROL, _NO_STORE))
