"""Every row is worked on once, by a task near it; an executor's site is a value of its environment."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pyarrow as pa
import pytest
from tests.spark.cluster import environment, standalone
from tests.spark.fixtures import run_python

from tidings.crawl.crawler import Manners
from tidings.crawl.rate_limit import Politeness
from tidings.net.allowlist import Allowed
from tidings.spark.locality import SITE, at_sites, crawl_near, near_hosts
from tidings.store.feeds import DueFeed
from tidings_lab import datasets
from tidings_lab.history import load_history
from tidings_lab.replay import Replay

HOSTS = [f"{number}.{land}.example" for land in ("eu", "us") for number in range(20)]
NEAR = {(land, host): 10.0 if f".{land}." in host else 150.0 for land in ("eu", "us") for host in HOSTS}


def told(batches):
    """The host, and where it was worked on."""
    from pyspark import TaskContext

    for batch in batches:
        here = f"{os.environ.get(SITE, '')}/{TaskContext.get().partitionId()}"
        yield pa.record_batch({"host": batch.column("host"), "at": pa.array([here] * batch.num_rows)})


def test_every_row_goes_to_one_task_and_tasks_share_them_evenly(spark):
    rows = pa.table({"host": [host for host in HOSTS for _ in range(3)]})
    found = at_sites(spark, rows, 2, near_hosts("host", None), told, "host string, at string")
    assert sorted(found["host"].to_pylist()) == sorted(rows["host"].to_pylist())
    at = found["at"].to_pylist()
    assert {at.count(task) for task in ("/0", "/1")} == {60}
    of_host = {host: {a for h, a in zip(found["host"].to_pylist(), at, strict=True) if h == host} for host in HOSTS}
    assert all(len(tasks) == 1 for tasks in of_host.values())


def test_no_rows_are_no_work(spark):
    nothing = pa.table({"host": pa.array([], pa.string())})
    assert at_sites(spark, nothing, 2, near_hosts("host", None), told, "host string, at string").num_rows == 0


def test_a_round_of_a_crawl_visits_every_feed_from_near(spark, monkeypatch):
    monkeypatch.setattr(datasets, "data_folder", lambda: None)
    history = load_history(3)
    manners = Manners(politeness=Politeness(between_s=0.0), allow=Allowed.parse(["loopback"]))

    async def crawled():
        async with Replay(history, now=history.feeds[0].looks[-1]).serving() as server:
            due = [DueFeed(n, server.url(feed), 0.0, "{}") for n, feed in enumerate(history.feeds)]
            return await asyncio.to_thread(crawl_near, spark, due, {}, manners, 2, None)

    outcomes = asyncio.run(crawled())
    assert sorted(one.visited.feed for one in outcomes) == list(range(len(history.feeds)))
    assert {one.step for one in outcomes} == {"read"}


PROGRAM = """
import json, sys
sys.path.insert(0, {root!r})
import pyarrow as pa, tidings
from tests.spark.test_locality import HOSTS, NEAR, told
from tidings.crawl.latency import Latencies
from tidings.spark.locality import at_sites, near_hosts
import tests.spark.test_locality
from pyspark import cloudpickle as pickled
pickled.register_pickle_by_value(tests.spark.test_locality)
spark = tidings.session({url!r})
share = near_hosts("host", Latencies(NEAR))
found = at_sites(spark, pa.table({{"host": HOSTS}}), 2, share, told, "host string, at string")
print(json.dumps(found.to_pylist()))
spark.stop()
"""


@pytest.mark.long
def test_feeds_of_a_continent_are_fetched_by_the_executor_there(tmp_path: Path):
    with standalone(tmp_path / "cluster", sites=("eu", "us")) as url:
        root = str(Path(__file__).resolve().parents[2])
        done = run_python(PROGRAM.format(root=root, url=url), **environment(tmp_path / "cluster"))
    rows = json.loads(done.stdout.splitlines()[-1])
    assert sorted(row["host"] for row in rows) == sorted(HOSTS)
    assert all(row["at"].split("/")[0] == row["host"].split(".")[1] for row in rows)
