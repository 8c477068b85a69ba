"""Exclusive leases (flock): stream, crawler, webhook sender and service; released when the process exits."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from tidings.errors import LeaseLost, StoreBusy, StoreError, StoreFull, StoreReadOnly
from tidings.private_files import NOT_WRITABLE, touch_private
from tidings.store.database import LeaseKind

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def describe_process() -> str:
    """Return pid and host of this process, for the error message of others."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def busy_error(kind: LeaseKind, location: object, holder: str) -> StoreBusy:
    return StoreBusy(f"The {kind} of {location} is running already: {holder}. Stop it first, or use another store.")


def lost_error(kind: LeaseKind, location: object, reason: str) -> LeaseLost:
    return LeaseLost(
        f"The {kind} lost its lease of {location}: {reason}. It ends, because another process may have taken over; "
        "start it again to continue."
    )


def read_only_error(location: object) -> StoreReadOnly:
    return StoreReadOnly(
        f"{location}: the state is read-only for this user, so nothing was changed. Run the command as the user that "
        "owns the state, or make it writable."
    )


def full_error(location: object) -> StoreFull:
    return StoreFull(f"{location}: the disk is full. Free some space and run again.")


@dataclass(frozen=True, slots=True)
class FileLease:
    """The lock on an open file."""

    path: Path
    file: TextIO
    kind: LeaseKind
    location: object

    def check(self) -> None:
        """Raise LeaseLost if the file was deleted or replaced: another process can lock a new one."""
        try:
            is_same = os.path.samestat(os.fstat(self.file.fileno()), self.path.stat())
        except OSError:
            is_same = False
        if not is_same:
            raise lost_error(self.kind, self.location, f"{self.path.name} was deleted")


@contextmanager
def acquire(path: Path, kind: LeaseKind, location: object) -> Iterator[FileLease]:
    """Hold the lock on a file. Raises StoreBusy with the holder. The file stays: deleting it would be a race."""
    with _open_lock(path, location) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise busy_error(kind, location, file.read().strip() or "another process") from None
        file.truncate(0)
        with _translated_errors(location):
            os.write(file.fileno(), describe_process().encode())
        try:
            yield FileLease(path, file, kind, location)
        finally:
            file.truncate(0)


def _open_lock(path: Path, location: object) -> TextIO:
    with _translated_errors(location):
        touch_private(path)
        return path.open("a+", encoding="utf-8")


@contextmanager
def _translated_errors(location: object) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in NOT_WRITABLE:
            raise read_only_error(location) from error
        if error.errno in _FULL:
            raise full_error(location) from error
        raise StoreError(f"{location}: cannot be written: {error.strerror or error}.") from error
