"""Notify live readers when the store has new matches. The store is polled once, however many readers there are."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress

from tidings.errors import TidingsError
from tidings.log import Event
from tidings.store import Store

LOG = logging.getLogger("tidings.web")


class Signal:
    """Wakes those who wait for a change. Used on the event loop only."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self.version = 0
        self.watchers = 0

    async def wait_for_change(self, version: int, timeout_s: float) -> None:
        """Wait until the version is not `version` any more. Read it before the store, so that no change is missed."""
        if self.version == version:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), timeout_s)

    def notify(self) -> None:
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()


class StoreNotifier(Signal):
    """Wakes all waiting readers when a value has changed, such as the last number of the store.

    Of those who `watch` a subscription, only the ones that `find_changed` returns are woken: with thousands of readers
    one query replaces thousands. Loss and return of the store are logged once. While it is lost, requests get 503 and
    live readers keep waiting.
    """

    def __init__(
        self,
        read_value: Callable[[], object],
        poll_s: float = 0.3,
        find_changed: Callable[[Sequence[int]], Collection[int]] = lambda watched: watched,
    ) -> None:
        super().__init__()
        self._read_value, self._poll_s, self._find_changed = read_value, poll_s, find_changed
        self._watches: dict[int, Signal] = {}
        self.is_store_lost = False
        self.is_closed = False

    @contextmanager
    def watch(self, subscription: int) -> Iterator[Signal]:
        """Return the signal of a subscription, which is watched inside the block."""
        signal = self._watches.setdefault(subscription, Signal())
        signal.watchers += 1
        try:
            yield signal
        finally:
            signal.watchers -= 1
            if not signal.watchers:
                del self._watches[subscription]

    def close(self) -> None:
        """Wake all readers for the last time."""
        self.is_closed = True
        self._notify(list(self._watches))

    def _notify(self, subscriptions: Collection[int]) -> None:
        self.notify()
        for subscription in subscriptions:
            if signal := self._watches.get(subscription):
                signal.notify()

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
        last: object = None
        while True:
            value, changed = await self._read(last)
            if value != last:
                last = value
                self._notify(changed)
            await asyncio.sleep(self._poll_s)

    async def _read(self, last: object) -> tuple[object, Collection[int]]:
        """Return the current value and the changed subscriptions; `last` if the store cannot be read."""
        try:
            value = await asyncio.to_thread(self._read_value)
            changed = [] if value == last else await self._find_watches_to_wake()
        except TidingsError as error:
            if not self.is_store_lost:
                LOG.error(Event("store lost, requests get 503", error=error))
            self.is_store_lost = True
            return last, []
        if self.is_store_lost:
            LOG.warning(Event("store is back"))
        self.is_store_lost = False
        return value, changed

    async def _find_watches_to_wake(self) -> Collection[int]:
        """Return the changed subscriptions, and those watched only since the search for them began."""
        watched = list(self._watches)
        changed = await asyncio.to_thread(self._find_changed, watched)
        return {*changed, *(self._watches.keys() - watched)}


def build_notifier(store: Store, read_phase: Callable[[], object], poll_s: float = 0.3) -> StoreNotifier:
    """Return the notifier of a store and of the phase of the stream."""
    number = 0

    def read_value() -> object:
        return store.matches.last_number(), store.subscriptions.position(), read_phase()

    def find_changed(watched: Sequence[int]) -> set[int]:
        nonlocal number
        last, number_now = number, store.matches.last_number()
        changed = store.matches.changed_among(watched, last)
        number = number_now  # only now: after an error the same changes are found again
        return changed

    return StoreNotifier(read_value, poll_s, find_changed)
