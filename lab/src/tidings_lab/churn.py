"""Replace subscriptions at a constant rate while a stream runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import numpy as np

from tidings.store import Store

_STEP_S = 1.0


class Churn(threading.Thread):
    """Every second removes some subscriptions and adds the same number: `per_minute` of each per minute.

    `live` are the ids that may be removed; new subscriptions take their queries from `queries` in turn.
    """

    def __init__(
        self, store: Store, live: Sequence[int], queries: Sequence[str], per_minute: int, rng: np.random.Generator
    ) -> None:
        super().__init__(name="churn", daemon=True)
        self._store, self._live, self._queries = store, list(live), queries
        self._per_minute, self._rng = per_minute, rng
        self._halt = threading.Event()
        self.changed = 0  # subscriptions replaced
        self.failure: Exception | None = None

    def run(self) -> None:
        start = time.monotonic()
        try:
            while not self._halt.wait(_STEP_S):
                self.replace(int((time.monotonic() - start) * self._per_minute / 60) - self.changed)
        except Exception as error:
            self.failure = error

    def replace(self, count: int) -> None:
        """Remove `count` subscriptions and add the same number."""
        for _ in range(count):
            place = int(self._rng.integers(len(self._live)))
            self._live[place], self._live[-1] = self._live[-1], self._live[place]
            self._store.subscriptions.remove(self._live.pop())
        places = range(self.changed, self.changed + count)
        self._live += self._store.subscriptions.add_many([(self._queries[at % len(self._queries)],) for at in places])
        self.changed += count

    def stop(self) -> None:
        self._halt.set()
        self.join()
