"""Measure webhook messages per second, and the delay from stored match to delivery.

Run `python -m tests.delivery.measure`. Sender, receiver and store share the machine, so the result is a lower bound.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time

from aiohttp import web
from tests.store.batches import posts, run_batch

from tidings.delivery.webhooks.sender import Sender
from tidings.net.allowlist import AllowedNetworks
from tidings.store import Store, open_store

WEBHOOKS, HOSTS, ROUNDS, SINGLES = 1_000, 100, 3, 100


async def measure(store: Store) -> None:
    arrived: list[float] = []

    async def take(request: web.Request) -> web.Response:
        await request.read()
        arrived.append(time.perf_counter())
        return web.Response(status=204)

    app = web.Application()
    app.router.add_post("/", take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "0.0.0.0", 0).start()
    port = runner.addresses[0][1]
    owners = [f"owner{number % 50}" for number in range(WEBHOOKS)]
    subscriptions = list(store.subscriptions.add_many([("tea", owner) for owner in owners]))
    for number, subscription in enumerate(subscriptions):
        store.webhooks.add(subscription, f"http://127.0.1.{number % HOSTS + 1}:{port}/")
    stop = asyncio.Event()
    sending = asyncio.create_task(Sender(store, AllowedNetworks.parse(["loopback"])).run(stop))
    await asyncio.sleep(2)
    rates = [await measure_burst(store, batch, subscriptions, arrived) for batch in range(ROUNDS)]
    print("messages/s:", ", ".join(f"{rate:,.0f}" for rate in rates))
    delays = [await measure_single(store, ROUNDS + number, subscriptions, arrived) for number in range(SINGLES)]
    delays.sort()
    p99 = delays[int(0.99 * SINGLES) - 1]
    print(f"delay: median {statistics.median(delays):.0f} ms, 99 % within {p99:.0f} ms")
    stop.set()
    await sending
    await runner.cleanup()


async def measure_burst(store: Store, batch: int, subscriptions: list[int], arrived: list[float]) -> float:
    """Store ten matches per webhook in one batch; return messages per second."""
    arrived.clear()
    table = posts(list(range(batch * 10, batch * 10 + 10)))
    run_batch(store, batch, table, [(subscription, row) for subscription in subscriptions for row in range(10)])
    started = time.perf_counter()
    while len(arrived) < WEBHOOKS:
        await asyncio.sleep(0.01)
    return WEBHOOKS / (arrived[-1] - started)


async def measure_single(store: Store, batch: int, subscriptions: list[int], arrived: list[float]) -> float:
    """Store one match of one webhook; return the milliseconds until it arrives."""
    await asyncio.sleep(0.037 * (batch % 7))
    arrived.clear()
    run_batch(store, batch, posts([1_000_000 + batch]), [(subscriptions[batch], 0)])
    started = time.perf_counter()
    while not arrived:
        await asyncio.sleep(0.001)
    return (arrived[0] - started) * 1000


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, open_store(folder) as opened:
        asyncio.run(measure(opened))
