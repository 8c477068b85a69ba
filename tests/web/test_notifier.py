"""The notifier: one poll of the store for all live readers."""

from __future__ import annotations

import asyncio
import threading

from tidings.errors import StoreError
from tidings.web.notifier import StoreNotifier


def test_a_change_during_a_read_is_not_missed():
    async def run():
        numbers = [1]
        notifier = StoreNotifier(lambda: numbers[-1], 0.01)
        async with asyncio.timeout(60), notifier.polling_task():
            await notifier.wait_for_change(0, 60)
            before = notifier.version
            numbers.append(2)
            while notifier.version == before:  # the change happens while a reader reads
                await asyncio.sleep(0.01)
            await notifier.wait_for_change(before, 3_600)
            await notifier.wait_for_change(notifier.version, 0.05)
            waiting = asyncio.create_task(notifier.wait_for_change(notifier.version, 3_600))
        await asyncio.wait_for(waiting, 60)
        assert notifier.is_closed

    asyncio.run(run())


def test_only_readers_of_changed_subscriptions_are_woken():
    async def run():
        numbers = [1]
        notifier = StoreNotifier(lambda: numbers[-1], 0.01, lambda watched: {2} & set(watched))
        async with asyncio.timeout(60), notifier.polling_task():
            with notifier.watch(1) as first, notifier.watch(2) as second, notifier.watch(2) as again:
                assert second is again
                await notifier.wait_for_change(0, 60)
                before = second.version
                numbers.append(2)
                await second.wait_for_change(before, 60)
                assert (first.version, second.version) == (0, before + 1)
            assert not notifier._watches

    asyncio.run(run())


def test_a_reader_that_comes_while_changes_are_searched_is_woken():
    """It is not among those that are searched, and may have read the store before the change."""
    searching, has_come = threading.Event(), threading.Event()

    def find_changed(watched):
        searching.set()
        has_come.wait(60)
        return watched

    async def run():
        notifier = StoreNotifier(lambda: 1, 0.01, find_changed)
        async with asyncio.timeout(60), notifier.polling_task():
            await asyncio.to_thread(searching.wait, 60)
            with notifier.watch(1) as signal:
                has_come.set()
                await signal.wait_for_change(0, 60)
                assert (signal.version, notifier.is_closed) == (1, False)

    asyncio.run(run())


def test_loss_and_return_of_the_store_are_logged_once(caplog):
    calls = []
    lost = [True]

    def read_number():
        calls.append(1)
        if lost:
            raise StoreError("gone")
        return 1

    async def run():
        notifier = StoreNotifier(read_number, 0.01)
        async with asyncio.timeout(60), notifier.polling_task():
            while len(calls) < 5:
                await asyncio.sleep(0.01)
            assert (notifier.is_store_lost, notifier.version) == (True, 0)
            lost.clear()
            await notifier.wait_for_change(0, 60)
            assert not notifier.is_store_lost

    asyncio.run(run())
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["store lost, requests get 503 error=gone", "store is back"]
