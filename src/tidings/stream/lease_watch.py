"""Notice that the stream lost its leases, also while no posts arrive."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tidings.errors import LeaseLost
from tidings.store.database import Lease

CHECK_S = 3.0


class LeaseWatch:
    """Checks leases in a thread of its own. When one is lost, it sets `stop` and keeps the error."""

    def __init__(self, leases: Sequence[Lease], stop: threading.Event) -> None:
        self._leases, self._stop = leases, stop
        self.error: LeaseLost | None = None
        self._ended = threading.Event()

    def raise_error(self) -> None:
        """Raise LeaseLost if a lease was lost."""
        if self.error is not None:
            raise self.error

    def run(self) -> None:
        while not self._ended.wait(CHECK_S) and not self._stop.is_set():
            try:
                for lease in self._leases:
                    lease.check()
            except LeaseLost as error:
                if not self._stop.is_set():  # a stream that is stopping has not failed
                    self.error = error
                self._stop.set()

    def end(self) -> None:
        self._ended.set()


@contextmanager
def lease_watch(leases: Sequence[Lease], stop: threading.Event) -> Iterator[LeaseWatch]:
    """Watch leases inside the block. The stream ends rather than taking a lease again: another may have it."""
    watch = LeaseWatch(leases, stop)
    thread = threading.Thread(target=watch.run, name="tidings-leases", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        watch.end()
        thread.join(CHECK_S)  # it may wait for a server that does not answer
