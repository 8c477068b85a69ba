"""The right of one process to run a stream, a crawler, a sender: a lock on a file, which dies with the process."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidings.errors import StoreBusy
from tidings.store.database import Held


def myself() -> str:
    """This process, as others will read it."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def busy(what: Held, where: object, holder: str) -> StoreBusy:
    return StoreBusy(f"The {what} of {where} is run by {holder} already; stop it first, or use another store.")


@contextmanager
def hold_file(path: Path, what: Held, where: object) -> Iterator[None]:
    """Hold the lock on the file; StoreBusy names who has it. The file stays: removing it would race with others."""
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise busy(what, where, file.read().strip() or "another process") from None
        file.truncate(0)
        file.write(myself())
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)
