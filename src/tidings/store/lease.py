"""Exclusive leases (flock) for the stream, the crawler and the webhook sender; released when the process exits."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidings.errors import StoreBusy
from tidings.store.database import LeaseKind


def describe_process() -> str:
    """Return pid and host of this process, for the error message of others."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def busy_error(kind: LeaseKind, location: object, holder: str) -> StoreBusy:
    return StoreBusy(f"The {kind} of {location} is running already: {holder}. Stop it first, or use another store.")


@contextmanager
def acquire(path: Path, kind: LeaseKind, location: object) -> Iterator[None]:
    """Hold the lock on a file. Raises StoreBusy with the holder. The file stays: deleting it would be a race."""
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise busy_error(kind, location, file.read().strip() or "another process") from None
        file.truncate(0)
        file.write(describe_process())
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)
