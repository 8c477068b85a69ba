"""Listening for requests, in the loop of who calls, and ending when told to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager

import uvicorn

from tidings.errors import InputError
from tidings.web.app import application
from tidings.web.context import Service

_GRACE_S = 2  # for requests under way when it ends
_BACKLOG = 2_048


class _Server(uvicorn.Server):
    """Signals are for who supervises it."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there; InputError if it cannot be. Port 0 is any that is free."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)  # who comes before we are ready waits
    except (OSError, TypeError) as error:  # the latter for a name that no host can have
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"--bind {host}:{port}: {reason}; choose another address.") from error
    return listener


@asynccontextmanager
async def answering(service: Service, listener: socket.socket) -> AsyncIterator[None]:
    """Requests are answered inside. Afterwards live readers are let go first, so that nobody waits for them."""
    config = uvicorn.Config(
        application(service),
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_GRACE_S,
    )
    server = _Server(config)
    async with service.pulse.beating():
        task = asyncio.create_task(server.serve([listener]))
        try:
            yield
        finally:
            service.pulse.end()
            server.should_exit = True
            await task
