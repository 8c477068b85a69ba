"""Values sent to PostgreSQL in its binary formats arrive unchanged."""

from __future__ import annotations

import math

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from tests.store.batches import read_ids, run_batch
from tests.store.conftest import new_schema

from tidings.store import open_store, pgcopy
from tidings.store.postgres import PostgresDatabase

OIDS = {"number": pgcopy.INT8, "kind": pgcopy.INT2, "text": pgcopy.TEXT, "at": pgcopy.FLOAT8}


@pytest.fixture
def connection(server):
    with psycopg.connect(server, autocommit=True) as opened:
        opened.adapters.register_dumper(np.ndarray, pgcopy.Int64ArrayDumper)
        yield opened


@pytest.mark.parametrize("slice_bytes", [1, 60, 16 << 20])
def test_rows_arrive_unchanged(connection, monkeypatch, slice_bytes):
    monkeypatch.setattr(pgcopy, "_SLICE_BYTES", slice_bytes)
    columns = {
        "number": [2**63 - 1, -(2**63), 0, None, 5],
        "kind": [1, None, -(2**15), 0, 7],
        "text": ["", None, "Grüße 🌧\n\t\\N\"',", "x" * 1000, "\x01"],
        "at": [0.1, -math.inf, None, 5e-324, -0.0],
    }
    table = pa.table(columns).slice(0, 2), pa.table(columns).slice(2)
    connection.execute("CREATE TEMP TABLE given (number BIGINT, kind SMALLINT, text TEXT, at DOUBLE PRECISION)")
    with connection.cursor().copy("COPY given FROM STDIN (FORMAT binary)") as copy:
        for data in pgcopy.encode_copy(pa.concat_tables(table), OIDS):
            copy.write(data)
    assert connection.execute("SELECT * FROM given").fetchall() == list(zip(*columns.values(), strict=True))


@pytest.mark.parametrize("numbers", [[], [7], [2**63 - 1, -(2**63), 0]])
def test_integer_arrays_arrive_unchanged(connection, numbers):
    given = np.array([*numbers, 1], np.int64)[:-1]
    assert connection.execute("SELECT %s::bigint[]", (given,)).fetchone() == (numbers,)


def test_only_batches_with_known_posts_use_a_temporary_table(server, monkeypatch):
    tables: list[str] = []
    original = PostgresDatabase._copy_missing

    def record(self, table, rows, oids):
        tables.append(table)
        return original(self, table, rows, oids)

    monkeypatch.setattr(PostgresDatabase, "_copy_missing", record)
    with open_store(new_schema(server)) as store:
        subscription = store.subscriptions.add("a")
        sizes = []
        for batch, posts in enumerate([[1, 2], [2, 3], [4, 5], [6]]):
            run_batch(store, batch, posts, [(subscription, row) for row in range(len(posts))])
            sizes.append(len(tables))
        assert sorted(read_ids(store, subscription)) == [1, 2, 3, 4, 5, 6]
    assert set(tables) == {"post"}
    assert sizes == [0, 1, 2, 2], "after a batch without known posts, posts are copied directly again"
