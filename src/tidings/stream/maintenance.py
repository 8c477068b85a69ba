"""Keeping the state of a running stream within its bounds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tidings.store import open_store
from tidings.stream.index_updater import Follower
from tidings.stream.options import Say, StreamRequest

_TIDY_S = 30.0


@contextmanager
def tidied(request: StreamRequest, follower: Follower, say: Say) -> Iterator[None]:
    """Every now and then forget what is beyond the bounds, on a connection and in a thread of its own."""
    done = threading.Event()

    def tidy() -> None:
        while not done.wait(_TIDY_S):
            try:
                with open_store(request.where) as store:  # anew: a database may have been away meanwhile
                    store.retain(request.retention)
                follower.retire()
                _tell_failure(follower, say)
            except Exception as error:  # whatever it is, the stream goes on, and what it leaves must stay bounded
                say(f"tidying up failed and is tried again in {_TIDY_S:.0f} s: {error}")

    thread = threading.Thread(target=tidy, name="tidings-tidy", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(_TIDY_S)


def _tell_failure(follower: Follower, say: Say) -> None:
    failure, follower.merging_failure = follower.merging_failure, None
    if failure is not None:
        say(f"the index could not be merged; it goes on as it is until twice as much has changed: {failure}")
