"""A store in PostgreSQL, in the schema that the URL's search path names first. Only this module knows psycopg."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

from tidings.errors import StoreBusy, StoreDamaged, StoreError, StoreFull
from tidings.store.database import Given, Held, Row, Whole
from tidings.store.lease import busy, myself
from tidings.store.pgcopy import WholesDumper, copied
from tidings.store.schema import is_current, migrate

WORDS = {"key": "BIGINT PRIMARY KEY", "clustered": "", "exact": ' COLLATE "C"'}
_WRITE_LOCK = 0x71D1  # the first half of our advisory locks; the second is the schema
_HELD: dict[Held, int] = {"stream": 0x71D2, "crawler": 0x71D3, "sender": 0x71D4}
_HERE = "hashtext(current_schema())"
_CONNECT_S, _RECONNECT_S = 10, 2
_LOCK_S = 30  # as with SQLite: who waits longer for another writer is told so
_REST_S = 1.0  # between attempts to reach a server that is away
_NOTICED: dict[str, Any] = {  # a server that is cut off without a word is given up after half a minute
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_FULL = (errors.DiskFull, errors.OutOfMemory)


class PostgresDatabase:
    """One connection to a server, made anew when it was lost.

    Not within a transaction, which is lost with it, nor while a right is held (`hold`): that may be another's now.
    """

    def __init__(self, url: str) -> None:
        self._lock = threading.RLock()
        self._known_oids: dict[str, dict[str, int]] = {}
        self._repeating: set[str] = set()  # tables that rows came to lately which they had already
        self._url, self._rest_until = url, 0.0
        self._is_closed = False
        self._bound = 0  # transactions and rights that would be lost with the connection
        try:
            known = conninfo_to_dict(url)
            self._where = f"PostgreSQL database {known.get('dbname', '')} on {known.get('host', 'this machine')}"
            self._connection = _connected(url, _CONNECT_S)
        except psycopg.Error as error:
            raise _unreachable(error) from error
        try:
            self._migrate()
        except BaseException:
            self._connection.close()
            raise

    def _migrate(self) -> None:
        if self._is_current():
            return
        with self.write():
            self.run("CREATE TABLE IF NOT EXISTS store_version (version BIGINT NOT NULL)")
            if not self.rows("SELECT 1 FROM store_version"):
                self.run("INSERT INTO store_version VALUES (0)")
            version = self.rows("SELECT version FROM store_version")[0][0]
            newest = migrate(self._where, version, self.run, WORDS)
            if newest != version:
                self.run("UPDATE store_version SET version = ?", newest)

    def _is_current(self) -> bool:
        """Whether there is nothing to migrate: who only reads must not wait for a batch that is being stored."""
        made = "SELECT to_regclass(quote_ident(current_schema()) || '.store_version')"
        found = self.rows("SELECT version FROM store_version") if self.rows(made)[0][0] is not None else []
        return is_current(self._where, [version for (version,) in found], WORDS)

    def rows(self, sql: str, *parameters: Any) -> list[Row]:
        with self._lock, self._told():
            self._renew()
            try:
                return self._execute(sql, parameters).fetchall()
            except psycopg.OperationalError:  # a server that came back tells so only when it is asked
                if not self._is_renewable() or not sql.startswith("SELECT"):
                    raise
            self._renew()
            return self._execute(sql, parameters).fetchall()

    def run(self, sql: str, *parameters: Any) -> int:
        with self._lock, self._told():
            self._renew()
            return self._execute(sql, parameters).rowcount

    def _is_renewable(self) -> bool:
        return self._connection.closed and not self._bound and not self._is_closed

    def _renew(self) -> None:
        """Make a lost connection anew, where nothing is lost by it; not again and again while there is no server."""
        if not self._is_renewable():
            return
        if monotonic() < self._rest_until:
            raise StoreError(f"The {self._where} cannot be reached.")
        try:
            self._connection = _connected(self._url, _RECONNECT_S)
        except psycopg.Error as error:
            self._rest_until = monotonic() + _REST_S
            raise _unreachable(error) from error

    @contextmanager
    def _binding(self) -> Iterator[None]:
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
    def write(self) -> Iterator[None]:
        """Writers queue at one lock: log positions and cursors become visible in the order in which they were given."""
        with self._lock, self._told(), ExitStack() as stack:
            self._renew()
            try:
                self._begin(stack)
            except psycopg.OperationalError:
                if not self._is_renewable():
                    raise
                stack.pop_all()  # nothing was written, and there is nobody to undo it
                self._renew()
                self._begin(stack)
            with self._binding():
                yield

    def _begin(self, stack: ExitStack) -> None:
        stack.enter_context(self._connection.transaction())
        self._execute(f"SELECT pg_advisory_xact_lock({_WRITE_LOCK}, {_HERE})", ())

    def append(self, table: str, columns: pa.Table, fixed: dict[str, Any]) -> int:
        """COPY into the table; where a row is there already, beside it first, then INSERT … SELECT leaves that out."""
        if not len(columns):
            return 0
        rows = columns
        for name, value in fixed.items():
            rows = rows.append_column(name, pa.repeat(value, len(rows)))
        with self._lock, self._told():
            oids = self._oids(table)
            if table not in self._repeating and self._copy_new(table, rows, oids):
                return len(rows)
            count = self._copy_beside(table, rows, oids)
        (self._repeating.add if count < len(rows) else self._repeating.discard)(table)
        return count

    def _oids(self, table: str) -> dict[str, int]:
        """The types of a table's columns."""
        if table not in self._known_oids:
            found = self._execute(f"SELECT * FROM {table} LIMIT 0", ()).description or []
            self._known_oids[table] = {column.name: column.type_code for column in found}
        return self._known_oids[table]

    def _copy_new(self, table: str, rows: pa.Table, oids: dict[str, int]) -> bool:
        """COPY in one go, which takes half the time; undone and False where a row breaks uniqueness."""
        try:
            with self._connection.transaction():
                self._copy(table, rows, oids)
        except errors.UniqueViolation:
            return False
        return True

    def _copy_beside(self, table: str, rows: pa.Table, oids: dict[str, int]) -> int:
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
            for piece in copied(rows, oids):
                copy.write(piece)

    def pairs(self, a: Whole, b: Whole) -> Given:
        return Given("unnest(?::bigint[], ?::bigint[]) AS given(a, b)", (a, b))

    def texts(self, values: list[str]) -> Given:
        sql = "(SELECT ordinality - 1 AS place, value FROM unnest(?::text[]) WITH ORDINALITY AS given(value)) AS listed"
        return Given(sql, (values,))

    @contextmanager
    def hold(self, what: Held) -> Iterator[None]:
        lock = _HELD[what]
        with ExitStack() as stack:
            with self._lock:  # nobody connects anew between the two
                if not self.rows(f"SELECT pg_try_advisory_lock({lock}, {_HERE})")[0][0]:
                    raise busy(what, self._where, self._holder(lock))
                stack.enter_context(self._binding())
            try:
                yield
            finally:
                if not self._connection.closed:
                    self.rows(f"SELECT pg_advisory_unlock({lock}, {_HERE})")

    def _holder(self, lock: int) -> str:
        found = self.rows(
            "SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a USING (pid) "
            f"WHERE l.locktype = 'advisory' AND l.granted AND l.classid = {lock} AND l.objid::bigint = "
            f"({_HERE}::bigint & 4294967295) AND a.datname = current_database() "
        )
        return str(found[0][0]).removeprefix("tidings ") if found else "another process"

    def bytes_used(self) -> int:
        sql = "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class WHERE relkind = 'r' AND "
        return int(self.rows(sql + "relnamespace = current_schema()::regnamespace")[0][0])

    def tidy(self) -> None:
        """Nothing: autovacuum makes the room of deleted rows usable again."""

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._connection.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """PostgreSQL's errors as ours."""
        try:
            yield
        except _FULL as error:
            raise StoreFull(f"No room left for the {self._where}; make room and run again.") from error
        except errors.LockNotAvailable as error:
            raise StoreBusy(f"The {self._where} is locked by another process; try again when it is done.") from error
        except (errors.DataCorrupted, errors.IndexCorrupted) as error:
            raise StoreDamaged(self._where, f"the server says it is damaged ({_first_line(error)})") from error
        except psycopg.Error as error:
            raise StoreError(f"The {self._where} failed: {_first_line(error)}.") from error


def _connected(url: str, seconds: int) -> psycopg.Connection[Row]:
    known, named = conninfo_to_dict(url), f"tidings {myself()}"[:63]
    noticed = {name: value for name, value in _NOTICED.items() if name not in known}
    made = psycopg.connect(url, connect_timeout=seconds, application_name=named, autocommit=True, **noticed)
    made.adapters.register_dumper(np.ndarray, WholesDumper)
    made.execute(f"SET lock_timeout = '{_LOCK_S}s'")
    return made


def _unreachable(error: psycopg.Error) -> StoreError:
    return StoreError(f"PostgreSQL cannot be reached: {_first_line(error)}.")


def _first_line(error: psycopg.Error) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
