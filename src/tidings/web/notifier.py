"""Notify live readers when the store or the phase of the stream has changed.

Both are polled once, however many readers there are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import NamedTuple

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


class _Polled(NamedTuple):
    """What the last poll has read."""

    value: object
    phase: object


class StoreNotifier(Signal):
    """Wakes all waiting readers when a value of the store has changed, such as its last number, or the phase.

    Of those who `watch` a subscription, only the ones that `find_changed` returns are woken: with thousands of readers
    one query replaces thousands. Loss and return of the store are logged once. While it is lost, requests get 503 and
    live readers keep waiting; the phase is not in the store, so its changes still wake them.
    """

    def __init__(
        self,
        read_value: Callable[[], object],
        poll_s: float = 0.3,
        find_changed: Callable[[Sequence[int]], Collection[int]] = lambda watched: watched,
        read_phase: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__()
        self._read_value, self._poll_s, self._find_changed = read_value, poll_s, find_changed
        self._read_phase = read_phase
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
        last = _Polled(None, None)
        while True:
            polled, changed = await self._read(last)
            if polled != last:
                last = polled
                self._notify(changed)
            await asyncio.sleep(self._poll_s)

    async def _read(self, last: _Polled) -> tuple[_Polled, Collection[int]]:
        """Return what can be read and the changed subscriptions; the last value if the store cannot be read."""
        phase = await asyncio.to_thread(self._read_phase)
        try:
            value = await asyncio.to_thread(self._read_value)
            changed = [] if value == last.value else await self._find_watches_to_wake()
        except TidingsError as error:
            if not self.is_store_lost:
                LOG.error(Event("store lost, requests get 503", error=error))
            self.is_store_lost = True
            return _Polled(last.value, phase), []
        if self.is_store_lost:
            LOG.warning(Event("store is back"))
        self.is_store_lost = False
        return _Polled(value, phase), changed

    async def _find_watches_to_wake(self) -> Collection[int]:
        """Return the changed subscriptions, and those watched only since the search for them began."""
        watched = list(self._watches)
        changed = await asyncio.to_thread(self._find_changed, watched)
        return {*changed, *(self._watches.keys() - watched)}


def build_notifier(store: Store, read_phase: Callable[[], object], poll_s: float = 0.3) -> StoreNotifier:
    """Return the notifier of a store and of the phase of the stream."""
    number = 0

    def read_value() -> object:
        return store.matches.last_number(), store.subscriptions.position()

    def find_changed(watched: Sequence[int]) -> set[int]:
        nonlocal number
        last, number_now = number, store.matches.last_number()
        changed = store.matches.changed_among(watched, last)
        number = number_now  # only now: after an error the same changes are found again
        return changed

    return StoreNotifier(read_value, poll_s, find_changed, read_phase)
