"""One Spark session for all tests, and a few words to write them with."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from tests.contract.matchers import expected

import tidings
from tidings.matching.brute_force import ScanPost

ROOT = Path(__file__).resolve().parents[2]
PLANS = {
    "replicated": {"plan": "replicated"},
    "3 matchers": {"plan": "partitioned", "matchers": 3},
}
MORE_PLANS = {
    **PLANS,
    "1 matcher": {"plan": "partitioned", "matchers": 1},
    "17 matchers": {"plan": "partitioned", "matchers": 17},
}


@pytest.fixture(scope="session")
def spark():
    session = tidings.session("local[2]", {"spark.sql.shuffle.partitions": "4"})
    yield session
    session.stop()


@pytest.fixture(params=PLANS)
def plan(request):
    return PLANS[request.param]


@pytest.fixture(params=MORE_PLANS)
def any_plan(request):
    return MORE_PLANS[request.param]


def subscribed(spark, queries: Sequence[str], ids: pa.Array | None = None):
    """Subscriptions as a DataFrame; ids count from 0 unless given."""
    ids = pa.array(range(len(queries)), pa.int64()) if ids is None else ids
    return spark.createDataFrame(pa.table({"id": ids, "query": pa.array(queries, pa.string())}))


def pairs(matches) -> list[tuple]:
    """(subscription, post) of all matches, in order, as often as reported."""
    assert matches.columns == ["subscription_id", "post_id", "index_version"]
    rows = matches.collect()
    assert all(row.index_version == 1 for row in rows)
    return sorted(((row.subscription_id, row.post_id) for row in rows), key=str)


def by_brute_force(queries: Sequence[str], posts: pa.Table) -> list[tuple]:
    """What `pairs` should give for posts with `id`, `text` and maybe a position."""
    places = [posts[name].to_pylist() if name in posts.column_names else [None] * len(posts) for name in ("lat", "lon")]
    scanned = [ScanPost(*row) for row in zip(posts["text"].to_pylist(), *places, strict=True)]
    ids = posts["id"].to_pylist()
    return sorted(((query, ids[post]) for query, post in expected(queries, scanned)), key=str)


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program of its own, with this Python and these sources."""
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    told = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert told.returncode == 0, told.stdout[-3000:] + told.stderr[-6000:]
    return told
