"""Fixtures for stores. Every test that uses `location` runs on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tidings.store import Store, open_store
from tidings.testing.clock import FakeClock
from tidings.testing.postgres import binaries, postgres

_schemas = count()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    if binaries() is None:
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
    with postgres() as url:
        yield url


def new_schema(server: str) -> str:
    """Create an empty schema and return its URL."""
    import psycopg

    name = f"store{next(_schemas)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{server}&options=-csearch_path%3D{name}"


@pytest.fixture(params=["sqlite", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "state")
    return new_schema(request.getfixturevalue("server"))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(location: str, clock: FakeClock) -> Iterator[Store]:
    with open_store(location, clock) as opened:
        yield opened
