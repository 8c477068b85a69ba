"""Real data next to the repository. Tests that need it are skipped without it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

HIDDEN = "none (not marked real_data)"
REAL_DATA = os.environ.get("TIDINGS_DATA", str(Path(__file__).resolve().parents[2] / "shared" / "data"))


def shared(name: str) -> Path:
    """Return a file of the real data (`TIDINGS_DATA`, else ../shared/data), or skip the test.

    Only tests with the marker `real_data` see the real data (tests/conftest.py), so all others give the same result
    without it.
    """
    folder = os.environ.get("TIDINGS_DATA", REAL_DATA)
    assert folder != HIDDEN, "a test that uses real data needs the marker real_data"
    path = Path(folder, name)
    if not path.is_file():
        pytest.skip(f"{name} is missing; real data is not part of the repository")
    return path


def real_tweets(count: int, skip: int = 0) -> list[str]:
    """Return the texts of real tweets."""
    import pyarrow.parquet as pq

    batches = pq.ParquetFile(shared("tweets.parquet")).iter_batches(batch_size=skip + count, columns=["text"])
    texts: list[str] = next(batches).column("text").slice(skip).to_pylist()
    return texts


def real_queries(count: int, skip: int = 0) -> list[str]:
    """Return real queries."""
    return shared("queries.txt").read_text("utf-8").split("\n")[skip : skip + count]
