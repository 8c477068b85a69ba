"""Every test that asks for `where` runs on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tidings.store import Store, open_store
from tidings.testing.clock import FakeClock
from tidings_lab.postgres import binaries, postgres

_schemas = count()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    if binaries() is None:
        pytest.skip("no PostgreSQL server here (apt-get install postgresql)")
    with postgres() as url:
        yield url


def new_schema(server: str) -> str:
    """The URL of an empty schema."""
    import psycopg

    name = f"store{next(_schemas)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{server}&options=-csearch_path%3D{name}"


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "state")
    return new_schema(request.getfixturevalue("server"))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(where: str, clock: FakeClock) -> Iterator[Store]:
    with open_store(where, clock) as opened:
        yield opened
