"""Read the store for live readers: few reads at once, and the owners take turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar
from weakref import WeakValueDictionary

import anyio
from anyio.to_thread import run_sync

_THREADS = 4
_Result = TypeVar("_Result")


class FairReads:
    """Runs functions in a few threads of their own, so that other requests never queue behind live readers.

    An owner has at most one read in the queue. A new match wakes thousands of readers; an owner with one of them then
    waits for one read of each other owner, not for all readers of another owner.
    """

    def __init__(self, threads: int = _THREADS) -> None:
        self._limiter = anyio.CapacityLimiter(threads)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(self, owner: str, function: Callable[..., _Result], *arguments: object) -> _Result:
        """Return the result of a function that reads for an owner."""
        async with self._turns.setdefault(owner, asyncio.Lock()):
            return await run_sync(function, *arguments, limiter=self._limiter)
