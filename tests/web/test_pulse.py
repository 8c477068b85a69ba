"""The pulse: one look at the store for all who listen."""

from __future__ import annotations

import asyncio

from tidings.errors import StoreError
from tidings.web.pulse import Pulse


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


def test_a_store_that_is_lost_for_long_is_told_and_a_hiccup_is_not():
    async def run(failures):
        left = [failures]

        def number():
            left[0] -= 1
            if left[0] >= 0:
                raise StoreError("gone")
            return 1

        pulse = Pulse(number, 0.01, patience_s=0.2)
        async with pulse.beating():
            await asyncio.sleep(0.6)
            return pulse.fails.is_set()

    assert not asyncio.run(run(3))
    assert asyncio.run(run(10_000))
