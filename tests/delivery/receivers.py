"""Receivers of webhooks on loopback, and senders that may send there."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tidings.delivery.webhooks.sender import Limits, Sender
from tidings.net.allowlist import Allowed
from tidings.store import Store

LOOPBACK = Allowed.parse(["loopback"])
QUICK = Limits(poll_s=0.02, timeout_s=5.0)


@dataclass(frozen=True, slots=True)
class Got:
    """One request as it arrived."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def posts(self) -> list[Any]:
        return [match["post_id"] for match in json.loads(self.body)["data"]["matches"]]


@dataclass(slots=True)
class Receiver:
    """A server that answers as it is told and remembers what it was sent."""

    url: str = ""
    got: list[Got] = field(default_factory=list)
    busy: int = 0
    busiest: int = 0

    async def until(self, holds: Callable[[], bool], timeout_s: float = 20.0) -> None:
        async with asyncio.timeout(timeout_s):
            while not holds():
                await asyncio.sleep(0.01)


Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def taken(request: web.Request) -> web.StreamResponse:
    return web.Response(status=204)


def answering(status: int, **headers: str) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, headers={name.replace("_", "-"): value for name, value in headers.items()})

    return answer


async def silent(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(3600)
    raise AssertionError


@asynccontextmanager
async def receiver(answer: Answer = taken, secure: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    """A receiver on loopback, for as long as the block lasts."""
    seen = Receiver()

    async def take(request: web.Request) -> web.StreamResponse:
        seen.got.append(Got(request.path, {k.lower(): v for k, v in request.headers.items()}, await request.read()))
        seen.busy += 1
        seen.busiest = max(seen.busiest, seen.busy)
        try:
            return await answer(request)
        finally:
            seen.busy -= 1

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", take)
    runner = web.AppRunner(app, shutdown_timeout=0.01, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=secure)
    await site.start()
    seen.url = f"{'https' if secure else 'http'}://127.0.0.1:{runner.addresses[0][1]}/hook"
    try:
        yield seen
    finally:
        await runner.cleanup()


@asynccontextmanager
async def sending(store: Store, allow: Allowed = LOOPBACK, limits: Limits = QUICK, **more: Any) -> AsyncIterator[None]:
    """A sender, for as long as the block lasts; what ends it ends the test."""
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(Sender(store, allow, limits, **more).run(stop))
        try:
            yield
        finally:
            stop.set()
