"""The time of a round, without the time in which this process waited for a CPU or was busy with other servers.

A limit of two seconds is a statement about a server. On an overloaded machine it must not become one about the machine,
nor next to a server that sends a flood one about those whose responses wait to be read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

_TICK_S = 0.05
_MAX_TICK_S = 0.1  # a tick that comes later had to wait for the event loop, and so had all responses:
_BUSY_SHARE = 0.25  # of the rest counts, so that a flood cannot prolong a round without an end
_MIN_SHARE = 0.1  # of the elapsed time counts in any case
_SCHEDULER_STATISTICS = Path("/proc/thread-self/schedstat")  # CPU time, waiting time (ns), time slices


class RoundOver(Exception):
    """The time for fetching in this round is over."""


class RoundClock:
    """Counts the seconds of a round, and ends its fetches when their time is over."""

    def __init__(self, start_s: float, fetch_s: float) -> None:
        self._start_s, self._fetch_s = start_s, fetch_s
        self._seconds = 0.0
        self._limits: set[asyncio.Timeout] = set()

    def seconds(self) -> float:
        """Return the time since the start of the round."""
        return self._seconds

    @property
    def can_start(self) -> bool:
        """Whether visits may still start."""
        return self._seconds <= self._start_s

    @asynccontextmanager
    async def fetching(self) -> AsyncIterator[None]:
        """Run a fetch. Raises RoundOver when the time is over."""
        if self._seconds > self._fetch_s:
            raise RoundOver
        try:
            async with asyncio.timeout(None) as limit:
                self._limits.add(limit)
                yield
        except TimeoutError:
            raise RoundOver from None
        finally:
            self._limits.discard(limit)

    async def run(self) -> None:
        """Count until the time for fetching is over, then end the fetches that still run."""
        loop = asyncio.get_running_loop()
        at_s, waited_s = loop.time(), _cpu_wait_s()
        while self._seconds <= self._fetch_s:
            await asyncio.sleep(_TICK_S)
            now_s, now_waited_s = loop.time(), _cpu_wait_s()
            elapsed_s = now_s - at_s
            running_s = elapsed_s - (now_waited_s - waited_s)
            busy_s = max(0.0, running_s - _MAX_TICK_S)
            self._seconds += max(_MIN_SHARE * elapsed_s, running_s - busy_s + _BUSY_SHARE * busy_s)
            at_s, waited_s = now_s, now_waited_s
        for limit in self._limits:
            limit.reschedule(loop.time())


def _cpu_wait_s() -> float:
    """Return how long this thread could run but had no CPU."""
    try:
        return int(_SCHEDULER_STATISTICS.read_bytes().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):  # not on this system
        return 0.0
