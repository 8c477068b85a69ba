"""A store in PostgreSQL, in the first schema of the URL's search path."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

from tidings.errors import StoreBusy, StoreDamaged, StoreError, StoreFull
from tidings.store.database import BoundRows, Int64Array, Lease, LeaseKind, Row
from tidings.store.lease import busy_error, describe_process, lost_error
from tidings.store.pgcopy import Int64ArrayDumper, encode_copy
from tidings.store.schema import is_current, migrate

DIALECT = {"key": "BIGINT PRIMARY KEY", "clustered": "", "exact": ' COLLATE "C"'}
_WRITE_LOCK = 0x71D1  # first key of the advisory lock; the second one is the schema
_LEASE_LOCKS: dict[LeaseKind, int] = {"stream": 0x71D2, "crawler": 0x71D3, "sender": 0x71D4, "service": 0x71D5}
_SCHEMA = "hashtext(current_schema())"
_CONNECT_S, _RECONNECT_S = 10, 2
_LOCK_S = 30  # wait for another writer; the same as for SQLite
_RECONNECT_PAUSE_S = 1.0  # between attempts to connect to a server that is down
_KEEPALIVE: dict[str, Any] = {  # detect a lost server after half a minute
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_FULL = (errors.DiskFull, errors.OutOfMemory)


class PostgresDatabase:
    """One connection to a server. It reconnects when the connection is lost.

    It does not reconnect within a transaction, which is lost, nor with a lease, which another process may have now.
    """

    def __init__(self, url: str) -> None:
        self._lock = threading.RLock()
        self._known_oids: dict[str, dict[str, int]] = {}
        self._repeating: set[str] = set()  # tables that recently received rows they had already
        self._url, self._no_connect_before = url, 0.0
        self._is_closed = False
        self._bound = 0  # transactions and leases that would be lost with the connection
        try:
            parts = conninfo_to_dict(url)
            self._location = f"PostgreSQL database {parts.get('dbname', '')} on {parts.get('host', 'this machine')}"
            self._connection = _connect(url, _CONNECT_S)
        except psycopg.Error as error:
            raise _connect_error(error) from error
        try:
            self._migrate()
        except BaseException:
            self._connection.close()
            raise

    def _migrate(self) -> None:
        if self._is_current():
            return
        with self.transaction():
            self.execute("CREATE TABLE IF NOT EXISTS store_version (version BIGINT NOT NULL)")
            if not self.fetch("SELECT 1 FROM store_version"):
                self.execute("INSERT INTO store_version VALUES (0)")
            version = self.fetch("SELECT version FROM store_version")[0][0]
            newest = migrate(self._location, version, self.execute, DIALECT)
            if newest != version:
                self.execute("UPDATE store_version SET version = ?", newest)

    def _is_current(self) -> bool:
        """Check without a lock whether a migration is needed: readers must not wait for a batch to commit."""
        table = "SELECT to_regclass(quote_ident(current_schema()) || '.store_version')"
        rows = self.fetch("SELECT version FROM store_version") if self.fetch(table)[0][0] is not None else []
        return is_current(self._location, [version for (version,) in rows], DIALECT)

    def fetch(self, sql: str, *parameters: Any) -> list[Row]:
        with self._lock, self._translated_errors():
            self._reconnect()
            try:
                return self._execute(sql, parameters).fetchall()
            except psycopg.OperationalError:  # a restarted server is noticed only by a query
                if not self._can_reconnect() or not sql.startswith("SELECT"):
                    raise
            self._reconnect()
            return self._execute(sql, parameters).fetchall()

    def execute(self, sql: str, *parameters: Any) -> int:
        with self._lock, self._translated_errors():
            self._reconnect()
            return self._execute(sql, parameters).rowcount

    def _can_reconnect(self) -> bool:
        return self._connection.closed and not self._bound and not self._is_closed

    def _reconnect(self) -> None:
        """Replace a lost connection if nothing depends on it, at most once per second while the server is down."""
        if not self._can_reconnect():
            return
        if monotonic() < self._no_connect_before:
            raise StoreError(f"{self._location}: cannot connect.")
        try:
            self._connection = _connect(self._url, _RECONNECT_S)
        except psycopg.Error as error:
            self._no_connect_before = monotonic() + _RECONNECT_PAUSE_S
            raise _connect_error(error) from error

    @contextmanager
    def _bound_connection(self) -> Iterator[None]:
        with self._lock:
            self._bound += 1
        try:
            yield
        finally:
            with self._lock:
                self._bound -= 1

    def _execute(self, sql: str, parameters: tuple[Any, ...]) -> psycopg.Cursor[Row]:
        return self._connection.execute(sql.replace("?", "%s"), parameters or None)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Writers queue at one lock, so that positions and cursors become visible in ascending order."""
        with self._lock, self._translated_errors(), ExitStack() as stack:
            self._reconnect()
            try:
                self._begin(stack)
            except psycopg.OperationalError:
                if not self._can_reconnect():
                    raise
                stack.pop_all()  # nothing was written, and there is no connection to roll back
                self._reconnect()
                self._begin(stack)
            with self._bound_connection():
                yield

    def _begin(self, stack: ExitStack) -> None:
        stack.enter_context(self._connection.transaction())
        self._execute(f"SELECT pg_advisory_xact_lock({_WRITE_LOCK}, {_SCHEMA})", ())

    def insert(self, table: str, columns: pa.Table, fixed: dict[str, Any]) -> int:
        """COPY into the table. If it has one of the rows already, COPY into a temporary table and INSERT … SELECT."""
        if not len(columns):
            return 0
        rows = columns
        for name, value in fixed.items():
            rows = rows.append_column(name, pa.repeat(value, len(rows)))
        with self._lock, self._translated_errors():
            oids = self._oids(table)
            if table not in self._repeating and self._copy_new(table, rows, oids):
                return len(rows)
            count = self._copy_missing(table, rows, oids)
        (self._repeating.add if count < len(rows) else self._repeating.discard)(table)
        return count

    def _oids(self, table: str) -> dict[str, int]:
        """Return the types of a table's columns."""
        if table not in self._known_oids:
            described = self._execute(f"SELECT * FROM {table} LIMIT 0", ()).description or []
            self._known_oids[table] = {column.name: column.type_code for column in described}
        return self._known_oids[table]

    def _copy_new(self, table: str, rows: pa.Table, oids: dict[str, int]) -> bool:
        """COPY directly, which takes half the time; roll back and return False if a row violates uniqueness."""
        try:
            with self._connection.transaction():
                self._copy(table, rows, oids)
        except errors.UniqueViolation:
            return False
        return True

    def _copy_missing(self, table: str, rows: pa.Table, oids: dict[str, int]) -> int:
        names = ", ".join(rows.column_names)
        self._execute(f"CREATE TEMP TABLE arriving ON COMMIT DROP AS SELECT {names} FROM {table} LIMIT 0", ())
        self._copy("arriving", rows, oids)
        sql = f"INSERT INTO {table} ({names}) SELECT {names} FROM arriving ON CONFLICT DO NOTHING"
        count = self._execute(sql, ()).rowcount
        self._execute("DROP TABLE arriving", ())
        return count

    def _copy(self, table: str, rows: pa.Table, oids: dict[str, int]) -> None:
        names = ", ".join(rows.column_names)
        with self._connection.cursor().copy(f"COPY {table} ({names}) FROM STDIN (FORMAT binary)") as copy:
            for data in encode_copy(rows, oids):
                copy.write(data)

    def bind_pairs(self, a: Int64Array, b: Int64Array) -> BoundRows:
        return BoundRows("unnest(?::bigint[], ?::bigint[]) AS given(a, b)", (a, b))

    def bind_texts(self, values: list[str]) -> BoundRows:
        listed = "unnest(?::text[]) WITH ORDINALITY AS given(value)"
        return BoundRows(f"(SELECT ordinality - 1 AS row_index, value FROM {listed}) AS listed", (values,))

    @contextmanager
    def lease(self, kind: LeaseKind) -> Iterator[Lease]:
        lock = _LEASE_LOCKS[kind]
        with ExitStack() as stack:
            with self._lock:  # no reconnect between the two
                if not self.fetch(f"SELECT pg_try_advisory_lock({lock}, {_SCHEMA})")[0][0]:
                    raise busy_error(kind, self._location, self._holder(lock))
                stack.enter_context(self._bound_connection())
            try:
                yield _SessionLease(self, kind)
            finally:
                with suppress(StoreError):  # the lock ended with its connection
                    self.fetch(f"SELECT pg_advisory_unlock({lock}, {_SCHEMA})")

    def check_lease(self, kind: LeaseKind) -> None:
        """Raise LeaseLost unless this connection lives and has the lock. Waits for a transaction to end."""
        held = f"SELECT 1 FROM pg_locks l WHERE l.pid = pg_backend_pid() AND {_is_lock(_LEASE_LOCKS[kind])}"
        try:
            rows = self.fetch(held)
        except StoreError as error:
            raise lost_error(
                kind, self._location, str(error).removeprefix(f"{self._location}: ").rstrip(".")
            ) from error
        if not rows:
            raise lost_error(kind, self._location, "the server released it")

    def _holder(self, lock: int) -> str:
        rows = self.fetch(
            "SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a USING (pid) "
            f"WHERE {_is_lock(lock)} AND a.datname = current_database()"
        )
        return str(rows[0][0]).removeprefix("tidings ") if rows else "another process"

    def bytes_used(self) -> int:
        sql = "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class WHERE relkind = 'r' AND "
        return int(self.fetch(sql + "relnamespace = current_schema()::regnamespace")[0][0])

    def reclaim_space(self) -> None:
        """Do nothing: autovacuum reclaims the space of deleted rows."""

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._connection.close()

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except _FULL as error:
            raise StoreFull(f"{self._location}: the disk is full. Free some space and run again.") from error
        except errors.LockNotAvailable as error:
            raise StoreBusy(f"{self._location}: locked by another process. Try again when it has finished.") from error
        except (errors.DataCorrupted, errors.IndexCorrupted) as error:
            raise StoreDamaged(self._location, f"the server reports damaged data ({_first_line(error)})") from error
        except psycopg.Error as error:
            raise StoreError(f"{self._location}: {_first_line(error)}.") from error


@dataclass(frozen=True, slots=True)
class _SessionLease:
    """An advisory lock, which ends with its connection."""

    database: PostgresDatabase
    kind: LeaseKind

    def check(self) -> None:
        self.database.check_lease(self.kind)


def _is_lock(lock: int) -> str:
    """Return the condition for the row `l` of pg_locks to be this lock of this schema."""
    return (
        f"l.locktype = 'advisory' AND l.granted AND l.classid = {lock} "
        f"AND l.objid::bigint = ({_SCHEMA}::bigint & 4294967295)"
    )


def _connect(url: str, timeout_s: int) -> psycopg.Connection[Row]:
    given, name = conninfo_to_dict(url), f"tidings {describe_process()}"[:63]
    keepalive = {option: value for option, value in _KEEPALIVE.items() if option not in given}
    connection = psycopg.connect(url, connect_timeout=timeout_s, application_name=name, autocommit=True, **keepalive)
    connection.adapters.register_dumper(np.ndarray, Int64ArrayDumper)
    connection.execute(f"SET lock_timeout = '{_LOCK_S}s'")
    return connection


def _connect_error(error: psycopg.Error) -> StoreError:
    return StoreError(f"PostgreSQL: cannot connect: {_first_line(error)}.")


def _first_line(error: psycopg.Error) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
