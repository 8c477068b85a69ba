"""Politeness to hosts: so many requests at once, so much time between them, and none while a host asks for peace."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tidings.net.urls import host_of
from tidings.store.feeds import DueFeed

_REMEMBERED = 100_000  # hosts; those that are free again are forgotten


@dataclass(frozen=True, slots=True)
class Politeness:
    """What one host has to bear."""

    at_once: int = 2
    between_s: float = 1.0
    round_s: float = 20.0  # feeds of one host that would take longer than that are left for the next round

    @property
    def a_round(self) -> int:
        """Requests to one host in a round, at most."""
        return max(1, int(self.round_s / self.between_s)) if self.between_s else 1_000_000


@dataclass(slots=True)
class Hosts:
    """Which hosts may be asked again, from one round to the next."""

    politeness: Politeness = field(default_factory=Politeness)
    _free_at: dict[str, float] = field(default_factory=dict)

    def chosen(self, due: Iterable[DueFeed], now: float) -> list[DueFeed]:
        """Those to visit in this round, in the order given; the others stay due."""
        asked: dict[str, int] = defaultdict(int)
        chosen = []
        for feed in due:
            host = host_of(feed.url)
            if self._free_at.get(host, 0.0) <= now and asked[host] < self.politeness.a_round:
                asked[host] += 1
                chosen.append(feed)
        return chosen

    def asked(self, url: str, now: float, wait_s: float = 0.0) -> None:
        """A host was asked just now; it may want to be left alone for longer than we would."""
        if len(self._free_at) > _REMEMBERED:
            self._free_at = {host: at for host, at in self._free_at.items() if at > now}
        host = host_of(url)
        free_at = now + max(wait_s, self.politeness.between_s)
        self._free_at[host] = max(free_at, self._free_at.get(host, 0.0))

    def free_at(self, due: Iterable[DueFeed]) -> float | None:
        """When the first of their hosts may be asked again."""
        return min((self._free_at.get(host_of(feed.url), 0.0) for feed in due), default=None)


class Gate:
    """The same within a round, where requests run side by side: one waits at the gate of a host."""

    def __init__(self, politeness: Politeness) -> None:
        self._politeness = politeness
        self._places = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(politeness.at_once))
        self._next_at = defaultdict[str, float](float)

    @asynccontextmanager
    async def passed(self, url: str) -> AsyncIterator[None]:
        """Held while a request to this address runs."""
        host, loop = host_of(url), asyncio.get_running_loop()
        async with self._places[host]:
            start = max(loop.time(), self._next_at[host])
            self._next_at[host] = start + self._politeness.between_s
            if (wait_s := start - loop.time()) > 0:
                await asyncio.sleep(wait_s)
            yield
