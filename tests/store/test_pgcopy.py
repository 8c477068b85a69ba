"""What goes to PostgreSQL in its binary formats arrives as it was."""

from __future__ import annotations

import math

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from tests.store.batches import ids, run
from tests.store.conftest import new_schema

from tidings.store import open_store, pgcopy
from tidings.store.postgres import PostgresDatabase

OIDS = {"number": pgcopy.INT8, "kind": pgcopy.INT2, "text": pgcopy.TEXT, "at": pgcopy.FLOAT8}


@pytest.fixture
def connection(server):
    with psycopg.connect(server, autocommit=True) as opened:
        opened.adapters.register_dumper(np.ndarray, pgcopy.WholesDumper)
        yield opened


@pytest.mark.parametrize("piece_bytes", [1, 60, 16 << 20])
def test_rows_arrive_as_they_were(connection, monkeypatch, piece_bytes):
    monkeypatch.setattr(pgcopy, "_PIECE_BYTES", piece_bytes)
    columns = {
        "number": [2**63 - 1, -(2**63), 0, None, 5],
        "kind": [1, None, -(2**15), 0, 7],
        "text": ["", None, "Grüße 🌧\n\t\\N\"',", "x" * 1000, "\x01"],
        "at": [0.1, -math.inf, None, 5e-324, -0.0],
    }
    table = pa.table(columns).slice(0, 2), pa.table(columns).slice(2)
    connection.execute("CREATE TEMP TABLE given (number BIGINT, kind SMALLINT, text TEXT, at DOUBLE PRECISION)")
    with connection.cursor().copy("COPY given FROM STDIN (FORMAT binary)") as copy:
        for piece in pgcopy.copied(pa.concat_tables(table), OIDS):
            copy.write(piece)
    assert connection.execute("SELECT * FROM given").fetchall() == list(zip(*columns.values(), strict=True))


@pytest.mark.parametrize("numbers", [[], [7], [2**63 - 1, -(2**63), 0]])
def test_whole_numbers_arrive_as_they_were(connection, numbers):
    given = np.array([*numbers, 1], np.int64)[:-1]
    assert connection.execute("SELECT %s::bigint[]", (given,)).fetchone() == (numbers,)


def test_new_posts_are_copied_straight_into_their_table_and_known_ones_beside_it(server, monkeypatch):
    beside: list[str] = []
    way = PostgresDatabase._copy_beside

    def noted(self, table, rows, oids):
        beside.append(table)
        return way(self, table, rows, oids)

    monkeypatch.setattr(PostgresDatabase, "_copy_beside", noted)
    with open_store(new_schema(server)) as store:
        one = store.subscribe("a")
        sizes = []
        for batch, posts in enumerate([[1, 2], [2, 3], [4, 5], [6]]):
            run(store, batch, posts, [(one, row) for row in range(len(posts))])
            sizes.append(len(beside))
        assert sorted(ids(store, one)) == [1, 2, 3, 4, 5, 6]
    assert set(beside) == {"post"}
    assert sizes == [0, 1, 2, 2], "after a batch without known posts they go straight again"
