"""Run the application with uvicorn in the caller's event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager

import uvicorn

from tidings.errors import InputError
from tidings.web.app import build_application
from tidings.web.context import AppContext

_GRACE_S = 2  # for requests that are running at shutdown
_BACKLOG = 2_048


class _Server(uvicorn.Server):
    """Leaves signals to the caller."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def open_listener(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 is any free port. Raises InputError."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)  # early clients wait until the server is ready
    except (OSError, TypeError) as error:  # TypeError: a name that is not a valid host name
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"--bind {host}:{port}: {reason}. Choose another address.") from error
    return listener


@asynccontextmanager
async def http_server(context: AppContext, listener: socket.socket) -> AsyncIterator[None]:
    """Serve requests inside the block. At the end live readers are disconnected first, so that shutdown is quick."""
    config = uvicorn.Config(
        build_application(context),
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_GRACE_S,
    )
    server = _Server(config)
    async with context.notifier.polling_task():
        task = asyncio.create_task(server.serve([listener]))
        try:
            yield
        finally:
            context.notifier.close()
            server.should_exit = True
            await task
