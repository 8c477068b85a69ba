"""How many webhooks a second arrive, and how soon after their match is stored.

Run as `python -m tests.deliver.measure`. Sender, receiver and store share the machine, so read it as a lower bound.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time

from aiohttp import web
from tests.store.batches import posts, run

from tidings.delivery.webhooks.sender import Sender
from tidings.net.allowlist import Allowed
from tidings.store import Store, open_store

HOOKS, HOSTS, ROUNDS, SINGLES = 1_000, 100, 3, 100


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
    owners = [f"owner{number % 50}" for number in range(HOOKS)]
    subscriptions = list(store.subscribe_many([("tea", owner) for owner in owners]))
    for place, subscription in enumerate(subscriptions):
        store.webhooks.add(subscription, f"http://127.0.1.{place % HOSTS + 1}:{port}/")
    stop = asyncio.Event()
    sending = asyncio.create_task(Sender(store, Allowed.parse(["loopback"])).run(stop))
    await asyncio.sleep(2)
    rates = [await burst(store, batch, subscriptions, arrived) for batch in range(ROUNDS)]
    print("messages/s:", ", ".join(f"{rate:,.0f}" for rate in rates))
    delays = [await single(store, ROUNDS + number, subscriptions, arrived) for number in range(SINGLES)]
    delays.sort()
    most = delays[int(0.99 * SINGLES) - 1]
    print(f"stored to arrived: median {statistics.median(delays):.0f} ms, 99 % within {most:.0f} ms")
    stop.set()
    await sending
    await runner.cleanup()


async def burst(store: Store, batch: int, subscriptions: list[int], arrived: list[float]) -> float:
    """Ten matches for every hook at once."""
    arrived.clear()
    found = posts(list(range(batch * 10, batch * 10 + 10)))
    run(store, batch, found, [(subscription, row) for subscription in subscriptions for row in range(10)])
    began = time.perf_counter()
    while len(arrived) < HOOKS:
        await asyncio.sleep(0.01)
    return HOOKS / (arrived[-1] - began)


async def single(store: Store, batch: int, subscriptions: list[int], arrived: list[float]) -> float:
    """One match for one hook; the milliseconds until it is there."""
    await asyncio.sleep(0.037 * (batch % 7))
    arrived.clear()
    run(store, batch, posts([1_000_000 + batch]), [(subscriptions[batch], 0)])
    began = time.perf_counter()
    while not arrived:
        await asyncio.sleep(0.001)
    return (arrived[0] - began) * 1000


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, open_store(folder) as opened:
        asyncio.run(measure(opened))
