"""Run the application with uvicorn in the caller's event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import uvicorn

from tidings.web.app import build_application
from tidings.web.connection_limits import ConnectionCount, ConnectionLimits
from tidings.web.context import AppContext
from tidings.web.http_protocol import LimitedProtocol, close_overdue
from tidings.web.listener import BACKLOG

_GRACE_S = 2  # for requests that are running at shutdown


class _Server(uvicorn.Server):
    """Leaves signals to the caller."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


@asynccontextmanager
async def http_server(
    context: AppContext, listener: socket.socket, limits: ConnectionLimits = ConnectionLimits()
) -> AsyncIterator[None]:
    """Serve requests inside the block. At the end live readers are disconnected first, so that shutdown is quick."""
    protocol: Any = partial(LimitedProtocol, ConnectionCount(limits))
    config = uvicorn.Config(
        build_application(context),
        http=protocol,
        ws="none",
        timeout_keep_alive=limits.idle_s,
        log_config=None,
        log_level="error",  # its warnings are about requests: any client could fill the log
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=_GRACE_S,
    )
    server = _Server(config)
    async with context.notifier.polling_task():
        task = asyncio.create_task(server.serve([listener]))
        sweep = asyncio.create_task(close_overdue(server.server_state.connections, limits.unsent_bytes))
        try:
            yield
        finally:
            sweep.cancel()
            context.notifier.close()
            server.should_exit = True
            await task
