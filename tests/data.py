"""The real data beside the repository; a test that needs it is skipped where it is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def shared(name: str) -> Path:
    """A file of ../shared/data, or a skipped test."""
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"{path} is not there; it is real data that does not belong to the repository")
    return path


def real_tweets(count: int, skip: int = 0) -> list[str]:
    """The texts of some real tweets."""
    import pyarrow.parquet as pq

    batches = pq.ParquetFile(shared("tweets.parquet")).iter_batches(batch_size=skip + count, columns=["text"])
    texts: list[str] = next(batches).column("text").slice(skip).to_pylist()
    return texts


def real_queries(count: int, skip: int = 0) -> list[str]:
    """Some real queries, one a line."""
    return shared("queries.txt").read_text("utf-8").split("\n")[skip : skip + count]
