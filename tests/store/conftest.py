"""Every test that asks for `where` runs on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tidings.store import Store, open_store
from tidings_lab.postgres import binaries, postgres

_schemas = count()


class Clock:
    """Time that stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


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
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(where: str, clock: Clock) -> Iterator[Store]:
    with open_store(where, clock) as opened:
        yield opened
