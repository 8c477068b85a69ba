"""A store in one SQLite file. It uses apsw, which bundles a current SQLite.

Python's own SQLite may corrupt a file that two processes write; `tidings subscribe` writes while `tidings run` does.
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

from tidings.errors import StoreBusy, StoreDamaged, StoreError
from tidings.store.database import BoundRows, Int64Array, Lease, LeaseKind, Row
from tidings.store.lease import acquire, full_error, read_only_error
from tidings.store.schema import is_current, migrate
from tidings.store.sqlite_open import (
    check_not_emptied,
    is_snapshot,
    mark_created,
    open_readable,
    open_writable,
    wal_of,
)

FILE = "tidings.sqlite"
SAFE_VERSION = (3, 51, 3)  # older versions can lose commits when two connections reset the WAL
DIALECT = {"key": "INTEGER PRIMARY KEY", "clustered": " WITHOUT ROWID", "exact": ""}

_PAGE_BYTES = 16_384  # fewer pages to write per commit; 4 KB pages took 1.5 times as long
_WAL_BYTES = 64 << 20
_BUSY_MS = 30_000
_STATEMENT_PARAMETERS = 500  # many rows per statement halve the cost, but the time to prepare it grows quadratically
_CHUNK_STATEMENTS = 50  # converted to Python objects together; few enough to stay in the CPU cache
_FILE_PRAGMAS = (  # stored in the file
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
_REMEDY = "Restore it from a backup, or move it away to start with an empty store"


class SqliteDatabase:
    """One connection to DIR/tidings.sqlite.

    A state that this user may not write, or whose disk is full, is opened for reading only.
    """

    def __init__(self, directory: Path) -> None:
        if tuple(map(int, apsw.sqlite_lib_version().split("."))) < SAFE_VERSION:
            raise StoreError(f"SQLite {apsw.sqlite_lib_version()} is too old. Install apsw 3.51.3 or later.")
        self._directory = directory
        self._path = directory / FILE
        self._lock = threading.RLock()
        self._is_snapshot = False  # opened for reading while no process writes it
        self._is_full = False  # opened for reading because the disk is full
        with self._translated_errors():
            check_not_emptied(self._path, _REMEDY)
            try:
                self._connect(open_writable(self._path))
            except (apsw.CantOpenError, apsw.ReadOnlyError):
                if not self._path.exists():
                    raise
                self._open_readable()
            except apsw.IOError as error:
                if getattr(error, "extendedresult", None) != apsw.SQLITE_IOERR_SHMSIZE:
                    raise
                self._is_full = True
                self._open_readable()

    def _connect(self, connection: apsw.Connection) -> None:
        self.connection = connection
        try:
            self._prepare()
        except BaseException:
            connection.close()
            raise

    def _open_readable(self) -> None:
        self._is_snapshot = is_snapshot(self._path)
        self._connect(open_readable(self._path))

    def _prepare(self) -> None:
        self.connection.set_busy_timeout(_BUSY_MS)
        is_current = self._is_current()
        for pragma in _PRAGMAS if is_current else (*_FILE_PRAGMAS, *_PRAGMAS):
            self.connection.execute(f"PRAGMA {pragma}").fetchall()
        self._check_length()
        if not is_current:
            with self.transaction():
                self._migrate()
        mark_created(self._path)

    def _is_current(self) -> bool:
        """Check without a write lock whether a migration is needed: readers must not wait for a batch to commit."""
        table = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'store_version'"
        if not self.connection.execute(table).fetchall():
            return False
        versions = [version for (version,) in self.connection.execute("SELECT version FROM store_version")]
        return is_current(self._path, versions, DIALECT)

    def _check_length(self) -> None:
        """Detect a truncated file when it is opened, not when the missing part is read."""
        wal = wal_of(self._path)
        expected = self.fetch("PRAGMA page_count")[0][0] * self.fetch("PRAGMA page_size")[0][0]
        if self._path.stat().st_size < expected and not (wal.exists() and wal.stat().st_size):
            raise StoreDamaged(self._path, f"the file is truncated. {_REMEDY}")

    def _migrate(self) -> None:
        tables = {name for (name,) in self.fetch("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and "store_version" not in tables:
            raise StoreDamaged(self._path, f"the file is a database of another program. {_REMEDY}")
        if not tables:
            self.execute("CREATE TABLE store_version (version BIGINT NOT NULL)")
            self.execute("INSERT INTO store_version VALUES (0)")
        version = self.fetch("SELECT version FROM store_version")[0][0]
        newest = migrate(self._path, version, self.execute, DIALECT)
        if newest != version:
            self.execute("UPDATE store_version SET version = ?", newest)

    def fetch(self, sql: str, *parameters: Any) -> list[Row]:
        with self._lock, self._translated_errors():
            if self._is_snapshot and not is_snapshot(self._path):  # a process began to write
                self.connection.close()
                self._open_readable()
            return self.connection.execute(sql, parameters).fetchall()

    def execute(self, sql: str, *parameters: Any) -> int:
        with self._lock, self._translated_errors():
            before = self.connection.total_changes()
            self.connection.execute(sql, parameters).fetchall()
            return self.connection.total_changes() - before

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._lock, self._translated_errors():
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:  # some errors roll back themselves
                    self.connection.execute("ROLLBACK")
                raise

    def insert(self, table: str, columns: pa.Table, fixed: dict[str, Any]) -> int:
        if not len(columns):
            return 0
        columns, fixed = _extract_constants(columns.combine_chunks(), fixed)
        width = max(1, _STATEMENT_PARAMETERS // columns.num_columns)
        insert_many, insert_one = (_insert_sql(table, columns.schema, fixed, count) for count in (width, 1))
        before, constants = self.connection.total_changes(), list(fixed.values())
        full = len(columns) // width * width
        with self._lock, self._translated_errors():
            for start in range(0, full, _CHUNK_STATEMENTS * width):
                count = min(_CHUNK_STATEMENTS * width, full - start)
                self.connection.executemany(insert_many, _bindings(columns.slice(start, count), constants, width))
            self.connection.executemany(insert_one, _bindings(columns.slice(full), constants, 1))
        return self.connection.total_changes() - before

    def bind_pairs(self, a: Int64Array, b: Int64Array) -> BoundRows:
        if not len(a):
            return BoundRows("(SELECT 0 AS a, 0 AS b WHERE false)", ())
        bits = int(b.max()).bit_length()
        packed = np.ascontiguousarray(a << bits | b)
        sql = f"(SELECT value >> {bits} AS a, value & {(1 << bits) - 1} AS b FROM carray(?))"
        return BoundRows(sql, (apsw.carray(packed),))

    def bind_texts(self, values: list[str]) -> BoundRows:
        return BoundRows("(SELECT rowid - 1 AS row_index, value FROM carray(?))", (apsw.carray(tuple(values)),))

    @contextmanager
    def lease(self, kind: LeaseKind) -> Iterator[Lease]:
        with acquire(self._directory / f"{kind}.lock", kind, self._directory) as lease:
            yield lease

    def bytes_used(self) -> int:
        files = (self._path, wal_of(self._path), self._path.with_name(FILE + "-shm"))
        return sum(file.stat().st_size for file in files if file.exists())

    def reclaim_space(self) -> None:
        """Return free pages to the file system if they exceed a quarter of the file; others are reused."""
        while True:
            free, pages = (self.fetch(f"PRAGMA {name}")[0][0] for name in ("freelist_count", "page_count"))
            if free * 4 <= pages:
                break
            self.fetch(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})")
            time.sleep(0.002)  # so that others can write
        self.fetch("PRAGMA wal_checkpoint(PASSIVE)")

    def close(self) -> None:
        with self._lock:
            self.connection.close()

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except apsw.FullError as error:
            raise full_error(self._path) from error
        except (apsw.NotADBError, apsw.CorruptError) as error:
            raise StoreDamaged(self._path, f"the file is damaged ({error}). {_REMEDY}") from error
        except apsw.BusyError as error:
            raise StoreBusy(f"{self._path}: locked by another process. Try again when it has finished.") from error
        except apsw.ReadOnlyError as error:
            raise full_error(self._path) if self._is_full else read_only_error(self._directory) from error
        except (apsw.CantOpenError, apsw.IOError, OSError) as error:
            raise StoreError(f"{self._path}: cannot be opened or written: {error}.") from error
        except (apsw.ProtocolError, apsw.LockedError, apsw.NoMemError, apsw.InternalError) as error:
            raise StoreError(f"{self._path}: {error}.") from error


def _extract_constants(columns: pa.Table, fixed: dict[str, Any]) -> tuple[pa.Table, dict[str, Any]]:
    """Move columns with one value to `fixed`, bound once per statement. The first column stays: it makes the rows."""
    constants = dict(fixed)
    for name in columns.column_names[1:]:
        column = columns[name]
        if column.null_count == len(column) or (not column.null_count and pc.all(pc.equal(column, column[0])).as_py()):
            constants[name] = column[0].as_py()
            columns = columns.drop_columns([name])
    return columns, constants


def _bindings(columns: pa.Table, constants: list[Any], width: int) -> Iterator[list[Any]]:
    """Yield the parameters of one statement per `width` rows: the constants, then the values row by row."""
    flat: list[Any] = [None] * (columns.num_columns * len(columns))
    for offset, column in enumerate(columns.columns):
        values = column.cast(pa.binary()) if _binds_as_bytes(column.type) else column
        flat[offset :: columns.num_columns] = values.to_pylist()
    step = width * columns.num_columns
    return (constants + flat[start : start + step] for start in range(0, len(flat), step))


def _binds_as_bytes(kind: pa.DataType) -> bool:
    """Bind texts as bytes, which saves decoding and encoding them again."""
    return bool(pa.types.is_string(kind))


def _insert_sql(table: str, schema: pa.Schema, fixed: dict[str, Any], count: int) -> str:
    """Return an INSERT of `count` rows; parameters 1, 2, … are the fixed values, which all rows share."""
    shared = [f"?{number}" for number in range(1, len(fixed) + 1)]
    per_row = ["CAST(? AS TEXT)" if _binds_as_bytes(field.type) else "?" for field in schema]
    rows = ", ".join([f"({', '.join([*shared, *per_row])})"] * count)
    return f"INSERT INTO {table} ({', '.join([*fixed, *schema.names])}) VALUES {rows} ON CONFLICT DO NOTHING"
