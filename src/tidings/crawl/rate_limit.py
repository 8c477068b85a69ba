"""Limit the requests to each host: concurrency, the interval between requests, and Retry-After."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tidings.net.urls import host_of
from tidings.store.feeds import DueFeed

_MAX_HOSTS = 100_000  # above that, hosts that may be visited again are dropped


@dataclass(frozen=True, slots=True)
class HostRateLimit:
    """Limits of one host."""

    max_concurrent: int = 2
    min_interval_s: float = 1.0

    def max_visits(self, seconds: float) -> int:
        """Return how many visits to one host may start within this time, the first one immediately."""
        return 1 + int(seconds / self.min_interval_s) if self.min_interval_s else 1_000_000


@dataclass(frozen=True, slots=True)
class VisitLimits:
    """Limits of one round: its feeds, seconds of requests to one host, and hosts that other rounds visit."""

    feeds: int
    host_s: float
    busy_hosts: Collection[str] = ()


@dataclass(slots=True)
class HostRateLimits:
    """When each host may be visited again, across rounds."""

    rate_limit: HostRateLimit = field(default_factory=HostRateLimit)
    _free_at: dict[str, float] = field(default_factory=dict)

    def select_visitable(self, due: Iterable[DueFeed], now: float, limits: VisitLimits) -> list[DueFeed]:
        """Return the feeds to visit in a round, in the given order; the others stay due."""
        visits: dict[str, int] = defaultdict(int)
        max_visits = self.rate_limit.max_visits(limits.host_s)
        selected = []
        for feed in due:
            host = host_of(feed.url)
            is_free = self._free_at.get(host, 0.0) <= now and host not in limits.busy_hosts
            if is_free and visits[host] < max_visits:
                visits[host] += 1
                selected.append(feed)
                if len(selected) == limits.feeds:
                    break
        return selected

    def record_request(self, url: str, now: float, wait_s: float = 0.0) -> None:
        """Record a request; `wait_s` is what the host requested with Retry-After."""
        if len(self._free_at) > _MAX_HOSTS:
            self._free_at = {host: at for host, at in self._free_at.items() if at > now}
        host = host_of(url)
        free_at = now + max(wait_s, self.rate_limit.min_interval_s)
        self._free_at[host] = max(free_at, self._free_at.get(host, 0.0))

    def next_free_at(self, due: Iterable[DueFeed]) -> float | None:
        """Return when the first host of these feeds may be visited again."""
        return min((self._free_at.get(host_of(feed.url), 0.0) for feed in due), default=None)


class HostGate:
    """Applies the limits within a round, where requests run concurrently."""

    def __init__(self, rate_limit: HostRateLimit) -> None:
        self._rate_limit = rate_limit
        self._slots = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(rate_limit.max_concurrent))
        self._next_at = defaultdict[str, float](float)

    @asynccontextmanager
    async def slot(self, url: str) -> AsyncIterator[None]:
        """Hold a slot of the host while a request to this URL runs."""
        host, loop = host_of(url), asyncio.get_running_loop()
        async with self._slots[host]:
            start = max(loop.time(), self._next_at[host])
            self._next_at[host] = start + self._rate_limit.min_interval_s
            if (wait_s := start - loop.time()) > 0:
                await asyncio.sleep(wait_s)
            yield
