"""The shared Spark session of all tests, and helpers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import tidings
from tidings.matching.brute_force import RawPost
from tidings.testing import lean_spark_environment

os.environ.update(lean_spark_environment())  # for this process and those that tests start

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
    session = tidings.session("local[2]")
    yield session
    session.stop()


@pytest.fixture(params=PLANS)
def plan(request):
    return PLANS[request.param]


@pytest.fixture(params=MORE_PLANS)
def any_plan(request):
    return MORE_PLANS[request.param]


def make_subscriptions(spark, queries: Sequence[str], ids: pa.Array | None = None):
    """Return subscriptions as a DataFrame; ids count from 0 unless given."""
    ids = pa.array(range(len(queries)), pa.int64()) if ids is None else ids
    return spark.createDataFrame(pa.table({"id": ids, "query": pa.array(queries, pa.string())}))


def collect_pairs(matches) -> list[tuple]:
    """Return (subscription, post) of all matches, sorted, with repetitions."""
    assert matches.columns == ["subscription_id", "post_id", "index_version"]
    rows = matches.collect()
    assert all(row.index_version == 1 for row in rows)
    return sorted(((row.subscription_id, row.post_id) for row in rows), key=str)


def expected_pairs(queries: Sequence[str], posts: pa.Table) -> list[tuple]:
    """Return what `collect_pairs` should return for posts with `id`, `text` and maybe a position."""
    from tidings.testing.oracles import expected_matches  # every test loads this module: import little

    positions = [
        posts[name].to_pylist() if name in posts.column_names else [None] * len(posts) for name in ("lat", "lon")
    ]
    scanned = [RawPost(*row) for row in zip(posts["text"].to_pylist(), *positions, strict=True)]
    ids = posts["id"].to_pylist()
    return sorted(((query, ids[post]) for query, post in expected_matches(queries, scanned)), key=str)


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a new process, with this Python and these sources."""
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-6000:]
    return result
