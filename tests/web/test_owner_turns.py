"""Owners take turns: one with many requests at once delays only itself."""

from __future__ import annotations

import asyncio
import threading
from urllib.parse import urlsplit

import pytest
from tests.web.conftest import live_server
from tests.web.test_subscriptions import subscribe

from tidings.errors import QuotaExceeded
from tidings.testing.http_load import request_status
from tidings.web.owner_turns import OwnerTurns

PATIENCE_S = 60.0


def test_an_owner_has_a_limited_number_of_turns_and_of_requests():
    async def use():
        turns, at_work, release = OwnerTurns(2, 3), [], asyncio.Event()

        async def work(owner):
            async with turns.turn(owner):
                at_work.append(owner)
                await release.wait()

        tasks = [asyncio.create_task(work(owner)) for owner in ("ann", "ann", "ann", "bob")]
        await asyncio.sleep(0)
        assert sorted(at_work) == ["ann", "ann", "bob"]
        with pytest.raises(QuotaExceeded):
            await work("ann")
        tasks[2].cancel()
        await asyncio.sleep(0)
        tasks[2] = asyncio.create_task(work("ann"))
        release.set()
        await asyncio.gather(*tasks)
        await work("ann")
        return at_work

    assert asyncio.run(use()).count("ann") == 4


def test_slow_requests_of_one_owner_leave_threads_for_others(context, ann, bob, monkeypatch):
    """More requests than the server has threads (40), each as slow as the store lets it be."""
    tokens = [one.headers["Authorization"].partition(" ")[2] for one in (ann, bob)]
    release, running = threading.Event(), []
    get = context.read_store.accounts.get

    def wait_for_release(owner):
        if owner == "ann":
            running.append(owner)
            assert release.wait(PATIENCE_S)
        return get(owner)

    monkeypatch.setattr(context.read_store.accounts, "get", wait_for_release)

    async def attack(url):
        slow = [asyncio.create_task(request_status(url, "/api/me", tokens[0])) for _ in range(60)]
        while len(running) < 4:
            await asyncio.sleep(0.01)
        other = await asyncio.wait_for(request_status(url, "/api/me", tokens[1]), PATIENCE_S / 2)
        at_once = len(running)
        release.set()
        return other, at_once, await asyncio.gather(*slow)

    with live_server(context) as url:
        other, at_once, statuses = asyncio.run(attack(url))
    assert (other, at_once) == (200, 4)
    assert statuses == [200] * 60


def test_readers_of_the_feeds_of_one_owner_leave_threads_for_others(context, ann, bob, monkeypatch):
    """A feed document may have megabytes, and everybody who knows its URL can request it."""
    path = urlsplit(subscribe(ann)["addresses"]["rss"]).path
    token = bob.headers["Authorization"].partition(" ")[2]
    release, running = threading.Event(), []
    latest = context.read_store.matches.latest

    def wait_for_release(*arguments, **options):
        running.append(arguments)
        assert release.wait(PATIENCE_S)
        return latest(*arguments, **options)

    monkeypatch.setattr(context.read_store.matches, "latest", wait_for_release)

    async def attack(url):
        slow = [asyncio.create_task(request_status(url, path, None)) for _ in range(60)]
        while len(running) < 2:
            await asyncio.sleep(0.01)
        other = await asyncio.wait_for(request_status(url, "/api/me", token), PATIENCE_S / 2)
        at_once = len(running)
        release.set()
        return other, at_once, await asyncio.gather(*slow)

    with live_server(context) as url:
        other, at_once, statuses = asyncio.run(attack(url))
    assert (other, at_once) == (200, 2)
    assert statuses == [200] * 60
