"""A clock for tests."""

from __future__ import annotations

import time


class FakeClock:
    """A replacement for `time.time`: stands still until a test advances it or sets `now`.

    With `runs`, real time passes too, for code that waits with real timers.
    """

    def __init__(self, now: float = 1_800_000_000.0, runs: bool = False) -> None:
        self._started_at = time.monotonic() if runs else None
        self.now = now

    def __call__(self) -> float:
        return self.now if self._started_at is None else self.now + time.monotonic() - self._started_at

    def advance(self, seconds: float) -> None:
        self.now += seconds
