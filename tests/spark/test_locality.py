"""Every row is processed once, by a near task. The site of an executor is an environment variable."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest
from tests.crawl.servers import OPTIONS
from tests.spark.cluster import environment, standalone_cluster
from tests.spark.fixtures import run_python
from tests.spark.test_crawl_stage import feed_server

from tidings.spark.locality import SITE_VARIABLE, by_host_latency, crawl_near, map_rows_near
from tidings.store.feeds import DueFeed
from tidings.testing.feed_servers import rss

HOSTS = [f"{number}.{land}.example" for land in ("eu", "us") for number in range(20)]
NEAR = {(land, host): 10.0 if f".{land}." in host else 150.0 for land in ("eu", "us") for host in HOSTS}


def report_site(batches):
    """Return the host and where it was processed."""
    from pyspark import TaskContext

    for batch in batches:
        site = f"{os.environ.get(SITE_VARIABLE, '')}/{TaskContext.get().partitionId()}"
        yield pa.record_batch({"host": batch.column("host"), "at": pa.array([site] * batch.num_rows)})


def test_every_row_goes_to_one_task_and_tasks_have_equal_loads(spark):
    rows = pa.table({"host": [host for host in HOSTS for _ in range(3)]})
    found = map_rows_near(spark, rows, 2, by_host_latency("host", None), report_site, "host string, at string")
    assert sorted(found["host"].to_pylist()) == sorted(rows["host"].to_pylist())
    at = found["at"].to_pylist()
    assert {at.count(task) for task in ("/0", "/1")} == {60}
    of_host = {host: {a for h, a in zip(found["host"].to_pylist(), at, strict=True) if h == host} for host in HOSTS}
    assert all(len(tasks) == 1 for tasks in of_host.values())


def test_no_rows_give_no_results(spark):
    empty = pa.table({"host": pa.array([], pa.string())})
    assert (
        map_rows_near(spark, empty, 2, by_host_latency("host", None), report_site, "host string, at string").num_rows
        == 0
    )


def test_crawl_round_visits_every_feed_from_a_near_site(spark):
    feeds = {f"/{number}": rss(f"article {number}") for number in range(3)}
    with feed_server(feeds) as url:
        due = [DueFeed(number, url + path, 0.0, "{}") for number, path in enumerate(feeds)]
        outcomes = crawl_near(spark, due, {}, OPTIONS, 2, None)
    assert sorted(outcome.visited.feed for outcome in outcomes) == [0, 1, 2]
    assert {outcome.step for outcome in outcomes} == {"read"}


PROGRAM = """
import json, sys
sys.path.insert(0, {root!r})
import pyarrow as pa, tidings
from tests.spark.test_locality import HOSTS, NEAR, report_site
from tidings.crawl.latency import Latencies
from tidings.spark.locality import map_rows_near, by_host_latency
import tests.spark.test_locality
from pyspark import cloudpickle as pickled
pickled.register_pickle_by_value(tests.spark.test_locality)
spark = tidings.session({url!r})
assign = by_host_latency("host", Latencies(NEAR))
found = map_rows_near(spark, pa.table({{"host": HOSTS}}), 2, assign, report_site, "host string, at string")
print(json.dumps(found.to_pylist()))
spark.stop()
"""


@pytest.mark.long
def test_feeds_are_fetched_by_the_executor_on_their_continent(tmp_path: Path):
    with standalone_cluster(tmp_path / "cluster", sites=("eu", "us")) as url:
        root = str(Path(__file__).resolve().parents[2])
        done = run_python(PROGRAM.format(root=root, url=url), **environment(tmp_path / "cluster"))
    rows = json.loads(done.stdout.splitlines()[-1])
    assert sorted(row["host"] for row in rows) == sorted(HOSTS)
    assert all(row["at"].split("/")[0] == row["host"].split(".")[1] for row in rows)
