"""The notifier: one poll of the store for all live readers."""

from __future__ import annotations

import asyncio

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
