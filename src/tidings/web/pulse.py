"""One look at the store a moment, however many listen: it tells them when there may be something new."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from tidings.errors import TidingsError

_LOG = logging.getLogger("tidings.web")


class Pulse:
    """Wakes whoever waits when a number (the store's last) has changed; `fails` once it could not be read for long.

    The store connects anew by itself; where that fails for so long, who serves ends, to be started again.
    """

    def __init__(self, number: Callable[[], int], every_s: float = 0.3, patience_s: float = 30.0) -> None:
        self._number, self._every_s, self._patience_s = number, every_s, patience_s
        self._changed = asyncio.Event()
        self.beats = 0
        self.fails = asyncio.Event()
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
        last, well_at = -1, time.monotonic()
        while True:
            try:
                number = await asyncio.to_thread(self._number)
                well_at = time.monotonic()
            except TidingsError as error:
                number = last
                if time.monotonic() - well_at > self._patience_s and not self.fails.is_set():
                    _LOG.error("the store cannot be read: %s", error)
                    self.fails.set()
            if number != last:
                last = number
                self._wake()
            await asyncio.sleep(self._every_s)
