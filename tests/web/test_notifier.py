"""The pulse: one look at the store for all who listen."""

from __future__ import annotations

import asyncio

from tidings.errors import StoreError
from tidings.web.notifier import Pulse


def test_a_change_while_somebody_reads_is_not_missed():
    async def run():
        numbers = [1]
        pulse = Pulse(lambda: numbers[-1], 0.01)
        async with pulse.beating():
            await pulse.beyond(0, 5)
            before = pulse.beats
            numbers.append(2)
            await asyncio.sleep(0.1)  # somebody reads for so long
            await asyncio.wait_for(pulse.beyond(before, 60), 1)
            await asyncio.wait_for(pulse.beyond(pulse.beats, 0.05), 1)
            waiting = asyncio.create_task(pulse.beyond(pulse.beats, 60))
        await asyncio.wait_for(waiting, 1)
        assert pulse.is_over

    asyncio.run(run())


def test_a_store_that_is_lost_is_told_once_and_so_is_its_return(caplog):
    async def run():
        lost = [True]

        def number():
            if lost:
                raise StoreError("gone")
            return 1

        pulse = Pulse(number, 0.01)
        async with pulse.beating():
            await asyncio.sleep(0.2)
            assert (pulse.is_lost, pulse.beats) == (True, 0)
            lost.clear()
            await asyncio.wait_for(pulse.beyond(0, 60), 5)
            assert not pulse.is_lost

    asyncio.run(run())
    told = [record.getMessage() for record in caplog.records]
    assert ["gone" in told[0], told[1:]] == [True, ["the store can be read again"]]
