"""Let the owners take turns: a few requests of each at once, the others wait."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from tidings.errors import QuotaExceeded

_RETRY_S = 5.0


class OwnerTurns:
    """Limits the requests of one owner that are at work, so that an owner with many delays only itself."""

    def __init__(self, at_once: int, max_requests: int) -> None:
        self._at_once, self._max_requests = at_once, max_requests
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._requests: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, owner: str) -> AsyncIterator[None]:
        """Wait for a turn of an owner and hold it in the block. Raises QuotaExceeded if too many wait already."""
        if self._requests[owner] >= self._max_requests:
            raise QuotaExceeded("Too many requests at once. Send one after the other.", retry_after_s=_RETRY_S)
        self._requests[owner] += 1
        try:
            async with self._turns.setdefault(owner, asyncio.Semaphore(self._at_once)):
                yield
        finally:
            self._requests -= Counter((owner,))  # without owners at zero
