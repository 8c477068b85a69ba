"""Subscriptions that come and go at a steady pace while a stream runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import numpy as np

from tidings.store import Store

_STEP_S = 1.0


class Churn(threading.Thread):
    """Every second some subscriptions go and as many new ones come: `a_minute` of each a minute.

    `live` are the ids that may go; the new ones ask for `queries`, in turn.
    """

    def __init__(
        self, store: Store, live: Sequence[int], queries: Sequence[str], a_minute: int, rng: np.random.Generator
    ) -> None:
        super().__init__(name="churn", daemon=True)
        self._store, self._live, self._queries = store, list(live), queries
        self._a_minute, self._rng = a_minute, rng
        self._halt = threading.Event()
        self.changed = 0  # so many went, and as many came
        self.failure: Exception | None = None

    def run(self) -> None:
        start = time.monotonic()
        try:
            while not self._halt.wait(_STEP_S):
                self.change(int((time.monotonic() - start) * self._a_minute / 60) - self.changed)
        except Exception as error:
            self.failure = error

    def change(self, count: int) -> None:
        """Remove so many, add as many."""
        for _ in range(count):
            place = int(self._rng.integers(len(self._live)))
            self._live[place], self._live[-1] = self._live[-1], self._live[place]
            self._store.unsubscribe(self._live.pop())
        places = range(self.changed, self.changed + count)
        self._live += self._store.subscribe_many([(self._queries[at % len(self._queries)],) for at in places])
        self.changed += count

    def stop(self) -> None:
        self._halt.set()
        self.join()
