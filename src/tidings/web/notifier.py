"""Notify live readers when the store has new matches. The store is polled once, however many readers there are."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from tidings.errors import TidingsError
from tidings.log import Event

LOG = logging.getLogger("tidings.web")


class StoreNotifier:
    """Wakes all waiting readers when a number (the last one of the store) has changed.

    Loss and return of the store are logged once. While it is lost, requests get 503 and live readers keep waiting.
    """

    def __init__(self, read_number: Callable[[], int], poll_s: float = 0.3) -> None:
        self._read_number, self._poll_s = read_number, poll_s
        self._changed = asyncio.Event()
        self.version = 0
        self.is_store_lost = False
        self.is_closed = False

    async def wait_for_change(self, version: int, timeout_s: float) -> None:
        """Wait until the version is not `version` any more. Read it before the store, so that no change is missed."""
        if self.version == version:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), timeout_s)

    def close(self) -> None:
        """Wake all readers for the last time."""
        self.is_closed = True
        self._notify()

    def _notify(self) -> None:
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def polling_task(self) -> AsyncIterator[None]:
        """Poll the store inside the block."""
        task = asyncio.create_task(self._poll())
        try:
            yield
        finally:
            self.close()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _poll(self) -> None:
        last = -1
        while True:
            number = await self._read_or(last)
            if number != last:
                last = number
                self._notify()
            await asyncio.sleep(self._poll_s)

    async def _read_or(self, last: int) -> int:
        """Return the current number, or `last` if the store cannot be read."""
        try:
            number = await asyncio.to_thread(self._read_number)
        except TidingsError as error:
            if not self.is_store_lost:
                LOG.error(Event("store lost, requests get 503", error=error))
            self.is_store_lost = True
            return last
        if self.is_store_lost:
            LOG.warning(Event("store is back"))
        self.is_store_lost = False
        return number
