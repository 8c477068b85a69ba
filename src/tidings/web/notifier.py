"""One look at the store a moment, however many listen: it tells them when there may be something new."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from tidings.errors import TidingsError

_LOG = logging.getLogger("tidings.web")


class Pulse:
    """Wakes whoever waits when a number (the store's last) has changed.

    A store that cannot be read is logged, once when it is lost and once when it is back. Requests are refused meanwhile
    (503), and who listens waits on.
    """

    def __init__(self, number: Callable[[], int], every_s: float = 0.3) -> None:
        self._number, self._every_s = number, every_s
        self._changed = asyncio.Event()
        self.beats = 0
        self.is_lost = False
        self.is_over = False

    async def beyond(self, beats: int, patience_s: float) -> None:
        """Wait until there were more beats than these (counted before looking, so none is missed), or for so long."""
        if self.beats == beats:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), patience_s)

    def end(self) -> None:
        """Nothing more will come; all who wait are woken."""
        self.is_over = True
        self._wake()

    def _wake(self) -> None:
        self.beats += 1
        self._changed.set()
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def beating(self) -> AsyncIterator[None]:
        """It beats inside."""
        task = asyncio.create_task(self._beat())
        try:
            yield
        finally:
            self.end()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _beat(self) -> None:
        last = -1
        while True:
            number = await self._looked(last)
            if number != last:
                last = number
                self._wake()
            await asyncio.sleep(self._every_s)

    async def _looked(self, last: int) -> int:
        """The number now; the last one where it cannot be read."""
        try:
            number = await asyncio.to_thread(self._number)
        except TidingsError as error:
            if not self.is_lost:
                _LOG.error("the store cannot be read; requests are refused until it can: %s", error)
            self.is_lost = True
            return last
        if self.is_lost:
            _LOG.error("the store can be read again")
        self.is_lost = False
        return number
