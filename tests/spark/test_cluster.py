"""Commands on a Spark standalone cluster: a master, two workers, and a shared directory."""

from __future__ import annotations

import csv
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.runs import TIDINGS
from tests.spark.cluster import environment, processes_in, standalone_cluster
from tests.stream.process import stored_matches, subscribe

from tidings.demo.generate import DEMO_QUERIES, generate_posts, generate_queries
from tidings.index.reader import Index
from tidings.matching.brute_force import match_all
from tidings.query.parse import parse

QUERIES = [*DEMO_QUERIES.values(), *generate_queries(100, seed=6)]
COMMAND_SECONDS = 600
pytestmark = pytest.mark.long  # starts a master, two workers and their executors


@dataclass(frozen=True)
class Cluster:
    """A running cluster and its shared directory."""

    url: str
    folder: Path
    shared: Path

    @property
    def cache(self) -> Path:
        """The directory of the local index cache of executors."""
        return self.folder / "tmp" / f"tidings-cache-{os.getuid()}"

    def tidings(self, *arguments: object) -> str:
        """Run a command on the cluster and return its output."""
        result = subprocess.run(
            [*TIDINGS, *map(str, arguments), "--master", self.url],
            env=environment(self.folder),
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout + result.stderr


@pytest.fixture(scope="module")
def posts() -> pa.Table:
    return generate_posts(400, seed=6)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, posts) -> Iterator[Cluster]:
    folder, shared = tmp_path_factory.mktemp("cluster") / "spark", tmp_path_factory.mktemp("shared")
    (shared / "posts").mkdir()
    for number in range(4):
        pq.write_table(posts.slice(number * 100, 100), shared / "posts" / f"{number}.parquet")
    with standalone_cluster(folder) as url:
        yield Cluster(url, folder, shared)
    assert processes_in(folder) == [], "all processes of the cluster have ended"


@pytest.fixture(scope="module")
def expected(posts) -> set[tuple[int, int]]:
    """(subscription, post) by brute force; subscription ids count from 1."""
    rows = zip(*(posts[name].to_pylist() for name in ("text", "lat", "lon")), strict=True)
    found = match_all(list(rows), [parse(query) for query in QUERIES])
    assert len(found) > 200
    return {(subscription + 1, posts["id"][post].as_py()) for subscription, post in found}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("state", ()),
        ("partitioned", ("--plan", "partitioned", "--matchers", "3")),
    ],
)
def test_stream_on_a_cluster_stores_the_brute_force_matches(cluster, expected, name, options):
    state = cluster.shared / name
    subscribe(state, *QUERIES)
    output = cluster.tidings("run", "--posts", cluster.shared / "posts", "--state", state, "--once", *options)
    assert stored_matches(state) == expected, output
    executors = [list(cluster.folder.glob(f"work-{number}/app-*/*/stderr")) for number in range(2)]
    assert all(executors), "each worker had an executor"
    assert all("INFO" not in log.read_text() for logs in executors for log in logs), "executors log warnings only"


def test_executors_use_local_copies_of_the_index(cluster):
    indexes = [Index.open(folder) for folder in cluster.shared.glob("*/index")]
    names = {segment.folder for index in indexes for shard in index.manifest.shards for segment in shard}
    copied = {path.parent.name.rpartition("-")[0] for path in cluster.cache.glob("entries-*/segment-*/*.npy")}
    assert copied == names != set()
    assert not list(cluster.shared.glob("*/index/token-cache")), "executors do not write to the shared directory"


def test_match_command_on_a_cluster_returns_the_brute_force_matches(cluster, expected):
    subscriptions, out = cluster.shared / "subscriptions.txt", cluster.shared / "matches.csv"
    subscriptions.write_text("".join(f"{query}\n" for query in QUERIES))
    options = ("--subscriptions", subscriptions, "--out", out, "--plan", "partitioned", "--matchers", "3")
    cluster.tidings("match", cluster.shared / "posts", *options)
    with out.open(newline="") as lines:
        found = [(int(row["subscription_id"]), int(row["post_id"])) for row in csv.DictReader(lines)]
    assert sorted(found) == sorted(expected)
