"""Open the file of a SQLite store: create it privately, refuse one that was emptied, read one that cannot be written.

SQLite cannot open a file with a write-ahead log if it may neither create the files next to it nor use existing ones.
Then no process writes the store, and it is read as a snapshot.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import apsw

from tidings.errors import StoreDamaged
from tidings.private_files import make_private_folder, touch_private

CREATED = "store-created"  # stays next to the store, so that a file that was emptied is not taken for a new one
_SHARED_MEMORY_BYTES = 32_768  # it grows in steps of this size
_READ = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
_OTHER_STATE = (
    CREATED, "index", "checkpoint", "spill", "inbox", "history", "correlations",
    "metrics.json", "figures.json", "provenance.json", "followed.json", "recent-posts.parquet",
    "stream.lock", "crawler.lock", "sender.lock",
)  # fmt: skip


def wal_of(path: Path) -> Path:
    """Return the write-ahead log of a store."""
    return path.with_name(f"{path.name}-wal")


def open_writable(path: Path) -> apsw.Connection:
    """Open the store for reading and writing. A new file, and its write-ahead log, can only be read by this user."""
    make_private_folder(path.parent)
    if not path.exists():
        touch_private(path)
    return apsw.Connection(str(path))


def open_readable(path: Path) -> apsw.Connection:
    """Open a store that this process may not write. `is_snapshot` tells whether it sees later changes."""
    if not is_snapshot(path):
        return apsw.Connection(_uri(path, "mode=ro"), flags=_READ)
    if not _has_content(wal_of(path)):
        return apsw.Connection(_uri(path, "mode=ro&immutable=1"), flags=_READ)
    folder = Path(tempfile.mkdtemp(prefix="tidings-store-"))  # the log must be applied, and that needs a copy
    try:
        for file in (path, wal_of(path)):
            shutil.copyfile(file, folder / file.name)
        connection = apsw.Connection(str(folder / path.name))
        connection.execute("SELECT count(*) FROM sqlite_master").fetchall()  # open the log before it is deleted
        connection.execute("PRAGMA query_only = ON")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return connection


def is_snapshot(path: Path) -> bool:
    """Return whether no process has the store open for writing: the shared memory of the write-ahead log is missing.

    An attempt to open the store on a full disk leaves a file that is too small.
    """
    memory = path.with_name(f"{path.name}-shm")
    return not memory.exists() or memory.stat().st_size < _SHARED_MEMORY_BYTES


def mark_created(path: Path) -> None:
    """Record that the store has content."""
    if not (marker := path.with_name(CREATED)).exists():
        with suppress(OSError):  # a read-only directory
            touch_private(marker)


def check_not_emptied(path: Path, remedy: str) -> None:
    """Raise StoreDamaged if the file is empty although the directory has other state."""
    if not path.is_file() or _has_content(path):
        return
    others = [name for name in _OTHER_STATE if _is_state(path.with_name(name))]
    if _has_content(wal_of(path)):
        others.append(wal_of(path).name)
    if others and not _has_content(path):  # another process may have created the store since the first look
        raise StoreDamaged(path, f"the file is empty, but there is other state ({', '.join(others)}). {remedy}")


def _is_state(path: Path) -> bool:
    """Return whether this is a file, or a directory with content."""
    return any(path.iterdir()) if path.is_dir() else path.exists()


def _has_content(file: Path) -> bool:
    return file.exists() and file.stat().st_size > 0


def _uri(path: Path, parameters: str) -> str:
    return f"file:{quote(str(path.absolute()))}?{parameters}"
