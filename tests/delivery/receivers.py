"""Webhook receivers on loopback, and senders that may reach them."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tidings.delivery.webhooks.sender import Sender, SenderLimits
from tidings.net.allowlist import AllowedNetworks
from tidings.store import Store

LOOPBACK = AllowedNetworks.parse(["loopback"])
QUICK = SenderLimits(poll_s=0.02, timeout_s=5.0)


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """One request of a sender."""

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
    """A server that records the requests it receives."""

    url: str = ""
    requests: list[ReceivedRequest] = field(default_factory=list)
    busy: int = 0
    busiest: int = 0

    async def until(self, condition: Callable[[], object], timeout_s: float = 60.0) -> None:
        async with asyncio.timeout(timeout_s):
            while not condition():
                await asyncio.sleep(0.01)


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def accept(request: web.Request) -> web.StreamResponse:
    return web.Response(status=204)


def answer_with(status: int, **headers: str) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, headers={name.replace("_", "-"): value for name, value in headers.items()})

    return answer


async def never_answer(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(3600)
    raise AssertionError


@asynccontextmanager
async def receiver(answer: Handler = accept, secure: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    """Run a receiver on loopback inside the block."""
    receiver_ = Receiver()

    async def take(request: web.Request) -> web.StreamResponse:
        receiver_.requests.append(
            ReceivedRequest(request.path, {k.lower(): v for k, v in request.headers.items()}, await request.read())
        )
        receiver_.busy += 1
        receiver_.busiest = max(receiver_.busiest, receiver_.busy)
        try:
            return await answer(request)
        finally:
            receiver_.busy -= 1

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", take)
    runner = web.AppRunner(app, shutdown_timeout=0.01, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=secure)
    await site.start()
    receiver_.url = f"{'https' if secure else 'http'}://127.0.0.1:{runner.addresses[0][1]}/hook"
    try:
        yield receiver_
    finally:
        await runner.cleanup()


@asynccontextmanager
async def running_sender(
    store: Store, allow: AllowedNetworks = LOOPBACK, limits: SenderLimits = QUICK, **more: Any
) -> AsyncIterator[None]:
    """Run a sender inside the block; an error of the sender fails the test."""
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(Sender(store, allow, limits, **more).run(stop))
        try:
            yield
        finally:
            stop.set()
