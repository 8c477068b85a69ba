"""A store in one SQLite file, through apsw, which brings a current SQLite.

The SQLite that Python brings may corrupt a file that two processes write, and here `subscribe` writes while `run` does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidings.errors import StoreBusy, StoreDamaged, StoreError, StoreFull
from tidings.store.database import Given, Held, Row, Whole
from tidings.store.lease import hold_file
from tidings.store.schema import is_current, migrate

FILE = "tidings.sqlite"
SAFE_VERSION = (3, 51, 3)  # the first without the bug that loses commits when two connections meet a WAL reset
WORDS = {"key": "INTEGER PRIMARY KEY", "clustered": " WITHOUT ROWID", "exact": ""}

_PAGE_BYTES = 16_384  # larger pages: fewer of them to write a commit (4 KB took half as long again)
_WAL_BYTES = 64 << 20
_BUSY_MS = 30_000
_PARAMETERS = 500  # bound at once: many rows a statement cost half, but preparing takes time with the square of them
_AT_ONCE = 50  # statements' worth of Python objects, few enough to stay in the processor's cache
_FILE_PRAGMAS = (  # the file keeps them
    f"page_size = {_PAGE_BYTES}",
    "auto_vacuum = INCREMENTAL",
    "journal_mode = WAL",
)
_PRAGMAS = (
    "synchronous = FULL",
    "temp_store = MEMORY",
    "cache_size = -131072",
    f"wal_autocheckpoint = {_WAL_BYTES // _PAGE_BYTES}",
    f"journal_size_limit = {_WAL_BYTES}",
)
_VACUUM_PAGES = 1_000
_WAY_OUT = "restore it from a copy, or move it away to begin with an empty store"


class SqliteDatabase:
    """One connection to DIR/tidings.sqlite."""

    def __init__(self, directory: Path) -> None:
        if tuple(map(int, apsw.sqlite_lib_version().split("."))) < SAFE_VERSION:
            raise StoreError(f"This apsw brings SQLite {apsw.sqlite_lib_version()}; install apsw 3.51.3 or later.")
        self._directory = directory
        self._path = directory / FILE
        self._lock = threading.RLock()
        with self._told():
            directory.mkdir(parents=True, exist_ok=True)
            self.connection = apsw.Connection(str(self._path))
            try:
                self._prepare()
            except BaseException:
                self.connection.close()
                raise

    def _prepare(self) -> None:
        self.connection.set_busy_timeout(_BUSY_MS)
        is_current = self._is_current()
        for pragma in _PRAGMAS if is_current else (*_FILE_PRAGMAS, *_PRAGMAS):
            self.connection.execute(f"PRAGMA {pragma}").fetchall()
        self._check_length()
        if not is_current:
            with self.write():
                self._migrate()

    def _is_current(self) -> bool:
        """Whether there is nothing to migrate: who only reads must not wait for a batch that is being stored."""
        if not self.rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'store_version'"):
            return False
        return is_current(self._path, [version for (version,) in self.rows("SELECT version FROM store_version")], WORDS)

    def _check_length(self) -> None:
        """A file cut short is found when opened, not when its missing part is read some day."""
        wal = self._path.with_name(FILE + "-wal")
        expected = self.rows("PRAGMA page_count")[0][0] * self.rows("PRAGMA page_size")[0][0]
        if self._path.stat().st_size < expected and not (wal.exists() and wal.stat().st_size):
            raise StoreDamaged(self._path, f"the file is shorter than it says; {_WAY_OUT}")

    def _migrate(self) -> None:
        tables = {name for (name,) in self.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and "store_version" not in tables:
            raise StoreDamaged(self._path, f"this is another program's database; {_WAY_OUT}")
        if not tables:
            self.run("CREATE TABLE store_version (version BIGINT NOT NULL)")
            self.run("INSERT INTO store_version VALUES (0)")
        version = self.rows("SELECT version FROM store_version")[0][0]
        newest = migrate(self._path, version, self.run, WORDS)
        if newest != version:
            self.run("UPDATE store_version SET version = ?", newest)

    def rows(self, sql: str, *parameters: Any) -> list[Row]:
        with self._lock, self._told():
            return self.connection.execute(sql, parameters).fetchall()

    def run(self, sql: str, *parameters: Any) -> int:
        with self._lock, self._told():
            before = self.connection.total_changes()
            self.connection.execute(sql, parameters).fetchall()
            return self.connection.total_changes() - before

    @contextmanager
    def write(self) -> Iterator[None]:
        with self._lock, self._told():
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:  # some errors have undone it already
                    self.connection.execute("ROLLBACK")
                raise

    def append(self, table: str, columns: pa.Table, fixed: dict[str, Any]) -> int:
        if not len(columns):
            return 0
        columns, fixed = _shared_apart(columns.combine_chunks(), fixed)
        width = max(1, _PARAMETERS // columns.num_columns)
        many, one = (_insert(table, columns.schema, fixed, count) for count in (width, 1))
        before, same = self.connection.total_changes(), list(fixed.values())
        whole = len(columns) // width * width
        with self._lock, self._told():
            for start in range(0, whole, _AT_ONCE * width):
                count = min(_AT_ONCE * width, whole - start)
                self.connection.executemany(many, _pieces(columns.slice(start, count), same, width))
            self.connection.executemany(one, _pieces(columns.slice(whole), same, 1))
        return self.connection.total_changes() - before

    def pairs(self, a: Whole, b: Whole) -> Given:
        if not len(a):
            return Given("(SELECT 0 AS a, 0 AS b WHERE false)", ())
        bits = int(b.max()).bit_length()
        packed = np.ascontiguousarray(a << bits | b)
        sql = f"(SELECT value >> {bits} AS a, value & {(1 << bits) - 1} AS b FROM carray(?))"
        return Given(sql, (apsw.carray(packed),))

    def texts(self, values: list[str]) -> Given:
        return Given("(SELECT rowid - 1 AS place, value FROM carray(?))", (apsw.carray(tuple(values)),))

    @contextmanager
    def hold(self, what: Held) -> Iterator[None]:
        with hold_file(self._directory / f"{what}.lock", what, self._directory):
            yield

    def bytes_used(self) -> int:
        files = (self._path, self._path.with_name(FILE + "-wal"), self._path.with_name(FILE + "-shm"))
        return sum(file.stat().st_size for file in files if file.exists())

    def tidy(self) -> None:
        """Pages that deletions left are used again; beyond a quarter of the file they go back to the file system."""
        while True:
            free, pages = (self.rows(f"PRAGMA {name}")[0][0] for name in ("freelist_count", "page_count"))
            if free * 4 <= pages:
                break
            self.rows(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})")
            time.sleep(0.002)  # let others write
        self.rows("PRAGMA wal_checkpoint(PASSIVE)")

    def close(self) -> None:
        with self._lock:
            self.connection.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """SQLite's errors as ours."""
        try:
            yield
        except apsw.FullError as error:
            raise StoreFull(f"No room left for {self._path}; make room and run again.") from error
        except (apsw.NotADBError, apsw.CorruptError) as error:
            raise StoreDamaged(self._path, f"the file is damaged ({error}); {_WAY_OUT}") from error
        except apsw.BusyError as error:
            raise StoreBusy(f"{self._path} is locked by another process; try again when it is done.") from error
        except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError, OSError) as error:
            raise StoreError(f"{self._path} cannot be used: {error}.") from error
        except (apsw.ProtocolError, apsw.LockedError, apsw.NoMemError, apsw.InternalError) as error:
            raise StoreError(f"{self._path} failed: {error}.") from error


def _shared_apart(columns: pa.Table, fixed: dict[str, Any]) -> tuple[pa.Table, dict[str, Any]]:
    """Columns that hold one value only are bound once a statement. One column always stays: it makes the rows."""
    shared = dict(fixed)
    for name in columns.column_names[1:]:
        column = columns[name]
        if column.null_count == len(column) or (not column.null_count and pc.all(pc.equal(column, column[0])).as_py()):
            shared[name] = column[0].as_py()
            columns = columns.drop_columns([name])
    return columns, shared


def _pieces(columns: pa.Table, same: list[Any], width: int) -> Iterator[list[Any]]:
    """What to bind for so many rows at a time: the values that are the same, then those of row after row."""
    flat: list[Any] = [None] * (columns.num_columns * len(columns))
    for place, column in enumerate(columns.columns):
        flat[place :: columns.num_columns] = (column.cast(pa.binary()) if _is_long(column.type) else column).to_pylist()
    step = width * columns.num_columns
    return (same + flat[start : start + step] for start in range(0, len(flat), step))


def _is_long(kind: pa.DataType) -> bool:
    """Texts go as bytes: they need not be decoded only to be encoded again."""
    return bool(pa.types.is_string(kind))


def _insert(table: str, schema: pa.Schema, fixed: dict[str, Any], count: int) -> str:
    """An INSERT of so many rows. The fixed values are bound once, as parameters 1, 2, …, and shared by all rows."""
    shared = [f"?{place + 1}" for place in range(len(fixed))]
    own = ["CAST(? AS TEXT)" if _is_long(field.type) else "?" for field in schema]
    rows = ", ".join([f"({', '.join([*shared, *own])})"] * count)
    return f"INSERT INTO {table} ({', '.join([*fixed, *schema.names])}) VALUES {rows} ON CONFLICT DO NOTHING"
