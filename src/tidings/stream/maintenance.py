"""Keep the state of a running stream within its limits."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tidings.heap import release_free_memory
from tidings.log import Event
from tidings.store import open_store
from tidings.stream.index_updater import IndexUpdater
from tidings.stream.options import StreamOptions

LOG = logging.getLogger("tidings.stream")
_INTERVAL_S = 30.0


@contextmanager
def maintenance_loop(options: StreamOptions, updater: IndexUpdater) -> Iterator[None]:
    """Apply retention, delete old index versions and release memory periodically, in a thread with a connection."""
    is_done = threading.Event()

    def run() -> None:
        while not is_done.wait(_INTERVAL_S):
            try:
                with open_store(options.store_url) as store:  # opened each time: the database may have restarted
                    store.apply_retention(options.retention)
                updater.delete_old_versions()
                release_free_memory()  # of builds and commits
                _log_merge_error(updater)
            except Exception as error:  # the stream must go on, and its state must stay bounded
                LOG.warning(Event("maintenance failed", error=error, retry_s=round(_INTERVAL_S)))

    thread = threading.Thread(target=run, name="tidings-maintenance", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join(_INTERVAL_S)


def _log_merge_error(updater: IndexUpdater) -> None:
    error, updater.merge_error = updater.merge_error, None
    if error is not None:
        LOG.warning(Event("index merge failed", error=error, next_attempt="after twice the changes"))
