"""The files of one run of Spark: a private temporary directory, and Spark's log.

Every run locks its directory for as long as its process lives. A run that starts deletes the directories of dead runs,
because a killed process leaves everything behind.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tidings.errors import InputError, TidingsError
from tidings.private_files import NOT_WRITABLE

FOLDER = "spark"  # in a state directory
_LOCK = "lock"
_ERROR_SIGNS = (b"ERROR", b"Error", b'Exception in thread "main"')  # the others if Java or Spark did not start
_MAX_LOG_BYTES = 16 << 20  # of earlier runs
_LOG_AGE_S = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The files of this process. `lock` is the open file whose lock says that the process lives."""

    temporary: Path
    log: Path
    lock: int
    pid: int

    def open_log(self) -> int:
        """Open Spark's log for appending. Raises InputError if the file is not ours: it may be a trap."""
        try:
            log = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise InputError(f"{self.log}: Spark's log cannot be written ({error.strerror}). Remove it.") from error
        status = os.fstat(log)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            os.close(log)
            raise InputError(f"{self.log}: Spark's log belongs to another user or is not a file. Remove it.")
        os.fchmod(log, 0o600)
        if status.st_size > _MAX_LOG_BYTES:
            os.ftruncate(log, 0)
        return log

    def delete(self) -> None:
        """Delete the temporary directory, and the log unless it contains an error."""
        with suppress(OSError):
            if not any(sign in self.log.read_bytes() for sign in _ERROR_SIGNS):
                self.log.unlink()
        shutil.rmtree(self.temporary, ignore_errors=True)


_current: RunFiles | None = None


def place_run_files(state: Path) -> RunFiles:
    """Put the files of this process into a state directory, unless they have a place. Raises TidingsError."""
    if _current is not None and _current.pid == os.getpid():
        return _current
    try:
        return _claim(state / FOLDER)
    except OSError as error:
        if error.errno in NOT_WRITABLE:
            from tidings.store.lease import read_only_error  # imported late: it loads the database drivers

            raise read_only_error(state) from error
        reason = error.strerror or error
        raise TidingsError(f"{state}: the temporary directory of Spark cannot be created ({reason}).") from error


def current_run_files() -> RunFiles:
    """Return the files of this process: as placed, or in a directory of this user below the temporary directory."""
    if _current is not None and _current.pid == os.getpid():
        return _current
    return _claim(_private_folder())


def log_file() -> Path | None:
    """Return Spark's log of this process; None if Spark was not started."""
    return None if _current is None else _current.log


def _claim(parent: Path) -> RunFiles:
    global _current
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(parent):
        _delete_dead_runs(parent)
        _delete_old_logs(parent)
        folder = Path(tempfile.mkdtemp(prefix=f"run-{os.getpid()}-", dir=parent.absolute()))
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
    log = folder.parent / f"spark-{os.getpid()}.log"
    _current = RunFiles(folder, log, lock, os.getpid())
    atexit.register(_current.delete)
    return _current


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a directory: a directory that another run creates just now has no lock yet."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _delete_dead_runs(parent: Path) -> None:
    for folder in parent.glob("run-*"):
        if _is_dead(folder / _LOCK):
            shutil.rmtree(folder, ignore_errors=True)


def _is_dead(lock: Path) -> bool:
    """Return whether no process holds the lock."""
    try:
        handle = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    except OSError:  # of another user
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def _private_folder() -> Path:
    """Return a directory that only this user can access; another user may have created the usual one first."""
    folder = Path(tempfile.gettempdir()) / f"tidings-{os.geteuid()}"
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077:
            return folder
    return Path(tempfile.mkdtemp(prefix="tidings-"))


def _delete_old_logs(folder: Path) -> None:
    """Delete old logs, except those of runs that live: they are old if nothing went wrong."""
    live = {f"spark-{run.name.split('-')[1]}.log" for run in folder.glob("run-*")}
    for log in folder.glob("spark-*.log"):
        with suppress(OSError):
            if log.name not in live and log.lstat().st_mtime < time.time() - _LOG_AGE_S:
                log.unlink()
