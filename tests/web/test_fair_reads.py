"""Reads for live readers: few at once, and an owner with many readers does not delay one with few."""

from __future__ import annotations

import asyncio
import threading

from tidings.web.fair_reads import FairReads


def test_owners_take_turns_and_few_reads_run_at_once():
    order, running, most = [], [], []
    lock = threading.Lock()

    def read(owner):
        with lock:
            running.append(owner)
            most.append(len(running))
        threading.Event().wait(0.002)
        with lock:
            order.append(owner)
            running.remove(owner)

    async def run():
        reads = FairReads(threads=2)
        greedy = [reads.run("greedy", read, "greedy") for _ in range(100)]
        others = [reads.run(f"owner {n}", read, f"owner {n}") for n in range(10)]
        await asyncio.gather(*greedy, *others)

    asyncio.run(run())
    assert max(most) == 2
    assert len(order) == 110
    assert order[:25].count("greedy") <= 15  # the ten others did not wait for the hundred
    assert max(order.index(f"owner {n}") for n in range(10)) < 25


def test_the_locks_of_idle_owners_are_not_kept():
    async def run():
        reads = FairReads()
        assert await asyncio.gather(*(reads.run(str(n), int, str(n)) for n in range(50))) == list(range(50))
        assert not len(reads._turns)

    asyncio.run(run())
