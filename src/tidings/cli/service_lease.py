"""Let one `tidings serve` run per state: a second one is refused before it starts anything."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tidings.cli.options.state import StateLocation
from tidings.errors import StoreBusy, StoreError
from tidings.log import Event
from tidings.private_files import make_private_folder
from tidings.store.database import Lease
from tidings.store.lease import acquire

LOG = logging.getLogger("tidings.cli")
_FILE = "service.lock"
_CHECK_S = 5.0
_JOIN_S = 5.0  # a server that does not answer must not delay the end of the service


@contextmanager
def service_lease(location: StateLocation) -> Iterator[None]:
    """Hold the right to serve a state, in its directory and in its database. Raises StoreBusy with the holder."""
    make_private_folder(location.work_dir)
    with acquire(location.work_dir / _FILE, "service", location.work_dir), ExitStack() as stack:
        if location.is_database:
            stack.enter_context(_database_lease(location))
        yield


@contextmanager
def _database_lease(location: StateLocation) -> Iterator[None]:
    """Hold the lease on a connection of its own: the others must be able to reconnect."""
    ended = threading.Event()
    holder = _LeaseHolder(location)
    holder.acquire()
    thread = threading.Thread(target=holder.keep, args=(ended,), name="tidings-service-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_JOIN_S)
        holder.release()


class _LeaseHolder:
    """Takes the lease again when the server was restarted: requests wait for the server, so the service goes on."""

    def __init__(self, location: StateLocation) -> None:
        self._location = location
        self._stack = ExitStack()
        self._lease: Lease | None = None
        self._lock = threading.Lock()
        self._is_released = False

    def acquire(self) -> None:
        """Take the lease, and give it back if `release` was called before it was granted."""
        with ExitStack() as stack:
            store = stack.enter_context(self._location.open_or_create())
            lease = stack.enter_context(store.lease("service"))
            with self._lock:
                if not self._is_released:
                    self._lease, self._stack = lease, stack.pop_all()

    def release(self) -> None:
        with self._lock:
            self._is_released = True
        self._stack.close()

    def keep(self, ended: threading.Event) -> None:
        is_reported = False
        while not ended.wait(_CHECK_S):
            try:
                self._renew()
                is_reported = False
            except StoreBusy as error:
                if not is_reported:
                    LOG.error(Event("another service uses this state", error=error))
                is_reported = True
            except StoreError:  # the server is down, which every request reports
                continue

    def _renew(self) -> None:
        try:
            if self._lease is not None:
                self._lease.check()
                return
        except StoreError:
            self._lease = None
            self._stack.close()
        self.acquire()
