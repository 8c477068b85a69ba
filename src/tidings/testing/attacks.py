"""Attacks of one client on a service that others use, for measurements of what the others notice.

``with running_attack(send_anonymous_bodies, Target(url, token))`` repeats an attack in a process of its own.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import multiprocessing
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from multiprocessing.sharedctypes import Synchronized

from tidings.testing import http_load
from tidings.testing.feed_servers import http_server
from tidings.testing.hostile_queries import SHAPES
from tidings.testing.hostile_servers import repeat_interim_responses
from tidings.testing.http_load import encode_request, open_connection, post_json, request_status

_PAUSE_S = 1.0
_WEBHOOK_TESTS = 100  # per round
_START_POLL_S = 0.02
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Target:
    """A service with the token of the attacker."""

    url: str
    token: str


Attack = Callable[[Target], Awaitable[object]]
"""One round of an attack, which is repeated. It runs in a process of its own, so it must be picklable."""


async def send_usual_requests(target: Target) -> None:
    """Send 1,000 small requests, one after the other. No attack: it shows what any load costs others."""
    for _ in range(1_000):
        await request_status(target.url, "/api/me", target.token)


async def send_anonymous_bodies(target: Target) -> None:
    """Send eight bodies of 8 MB at once, without a token."""
    await http_load.post_bodies(target.url, "/api/posts", _lists(), 8)


async def send_large_bodies(target: Target) -> None:
    """Send eight bodies of 8 MB at once with a token, half of them with unknown keys."""
    pairs = itertools.product(("/api/posts", "/api/subscriptions"), (_lists(), _keys()))
    await asyncio.gather(*(http_load.post_bodies(target.url, path, body, 2, target.token) for path, body in pairs))


async def send_large_headers(target: Target) -> None:
    """Send headers without an end on eight connections."""
    await asyncio.gather(*(http_load.send_huge_headers(target.url, 30_000_000) for _ in range(8)))


async def hold_half_requests(target: Target) -> None:
    """Hold 1,000 connections on which only a part of a request was sent."""
    async with http_load.half_open_requests(target.url, 1_000) as connections:
        await http_load.count_closed(connections, 60.0)


async def import_large_outlines(target: Target) -> None:
    """Import four OPML documents of 4 MB at once."""
    await http_load.post_bodies(target.url, "/api/opml", _elements(), 4, target.token)


async def import_many_feeds(target: Target) -> None:
    """Import an OPML document with 1,000 new feeds, which nobody serves."""
    start = 1_000 * next(_numbers)
    urls = (
        f"http://127.9.{number // 250 % 250}.{number % 250 + 1}:9/f{number}" for number in range(start, start + 1_000)
    )
    outlines = "".join(f'<outline type="rss" xmlUrl="{url}"/>' for url in urls)
    body = f"<opml><body>{outlines}</body></opml>".encode()
    await http_load.post_bodies(target.url, "/api/opml", body, 1, target.token)


async def open_live_readers(target: Target) -> None:
    """Open 1,000 live connections as one owner and hold those that are accepted."""
    opened = await asyncio.gather(*(_open_live_reader(target) for _ in range(1_000)), return_exceptions=True)
    try:
        await asyncio.sleep(60.0)
    finally:
        for writer in opened:
            if isinstance(writer, asyncio.StreamWriter):
                writer.transport.abort()


async def _open_live_reader(target: Target) -> asyncio.StreamWriter:
    _, writer = await open_connection(target.url)
    writer.write(encode_request("GET", "/api/live", target.token))
    return writer


async def check_expensive_queries(target: Target) -> None:
    """Check hostile queries on 16 connections. They cost most after `fill_history`."""
    start = next(_numbers)
    bodies = [json.dumps({"query": make(start)}).encode() for make in SHAPES.values()]
    await asyncio.gather(*(_check_queries(target, bodies[number % len(bodies) :]) for number in range(16)))


async def _check_queries(target: Target, bodies: Sequence[bytes]) -> None:
    for body in bodies:
        await request_status(target.url, "/api/check", target.token, "POST", body)


async def send_webhook_tests(target: Target) -> None:
    """Test a webhook again and again; its receiver sends interim responses without an end."""
    async with http_server(repeat_interim_responses) as receiver:
        added = await post_json(target.url, "/api/subscriptions", target.token, {"query": "storm"})
        webhook = {"subscription": added["id"], "url": f"{receiver}/hook"}
        path = f"/api/webhooks/{(await post_json(target.url, '/api/webhooks', target.token, webhook))['id']}/test"
        for _ in range(_WEBHOOK_TESTS):
            await request_status(target.url, path, target.token, "POST")
        await request_status(target.url, f"/api/subscriptions/{added['id']}", target.token, "DELETE")


HTTP_CASES: dict[str, Attack] = {
    "anonymous bodies": send_anonymous_bodies,
    "large bodies": send_large_bodies,
    "large headers": send_large_headers,
    "half requests": hold_half_requests,
    "large OPML": import_large_outlines,
    "live readers": open_live_readers,
    "expensive checks": check_expensive_queries,
    "webhook tests": send_webhook_tests,
}
"""Attacks on the HTTP server alone."""


@dataclass(frozen=True, slots=True)
class AddSubscriptions:
    """Adds these queries as subscriptions. Then it only waits: they must not cost others anything."""

    queries: Sequence[str]

    async def __call__(self, target: Target) -> None:
        for query in self.queries:
            body = json.dumps({"query": query}).encode()
            await request_status(target.url, "/api/subscriptions", target.token, "POST", body)
        await asyncio.Event().wait()


@dataclass(frozen=True, slots=True)
class AddFeeds:
    """Adds these feeds."""

    urls: Sequence[str]

    async def __call__(self, target: Target) -> None:
        for url in self.urls:
            body = json.dumps({"url": url}).encode()
            await request_status(target.url, "/api/feeds", target.token, "POST", body)
        await asyncio.sleep(_PAUSE_S)


_lists = cache(lambda: http_load.empty_lists(8_000_000))
_keys = cache(lambda: http_load.unknown_keys(8_000_000))
_elements = cache(lambda: http_load.empty_elements(4_000_000))


@contextmanager
def running_attack(attack: Attack, target: Target) -> Iterator[Callable[[], int]]:
    """Repeat an attack in another process; yield a function that returns the number of complete rounds."""
    spawn = multiprocessing.get_context("spawn")
    rounds = spawn.Value("l", -1)
    process = spawn.Process(target=_repeat, args=(attack, target, rounds), daemon=True)
    process.start()
    try:
        while rounds.value < 0:
            assert process.is_alive(), "the attack did not start"
            time.sleep(_START_POLL_S)
        yield lambda: int(rounds.value)
        assert process.is_alive(), "the attack ended early"
    finally:
        process.kill()
        process.join()


def _repeat(attack: Attack, target: Target, rounds: Synchronized[int]) -> None:
    rounds.value = 0
    while True:
        with suppress(OSError, TimeoutError):  # the service may refuse connections
            asyncio.run(attack(target))  # type: ignore[arg-type]
        rounds.value += 1
