"""Loads of matchers are measured in the workers and arrive complete."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidings.demo.generate import DEMO_QUERIES, generate_posts
from tidings.index.builder import create_index
from tidings.index.manifest import PlanRecord
from tidings.matching.load import MatcherLoad
from tidings.spark.accumulators import MatcherMetrics, RoutingMetrics, RoutingOptions
from tidings.spark.index_shipping import shared_path_ref
from tidings.spark.pipeline import match_posts, matched_posts
from tidings.spark.post_columns import select_all_fields

POSTS, MATCHERS = 2_000, 3
QUERIES = list(DEMO_QUERIES.values())


@pytest.fixture(scope="module")
def posts(spark, tmp_path_factory):
    path = tmp_path_factory.mktemp("load") / "posts.parquet"
    spark.createDataFrame(generate_posts(POSTS, 5).select(["id", "text"])).repartition(4).write.parquet(str(path))
    return spark.read.parquet(str(path))


def _index(folder, plan=None):
    table = pa.table({"id": pa.array(range(1, len(QUERIES) + 1), pa.int64()), "query": QUERIES})
    return create_index(folder, table, plan)[0]


@pytest.fixture
def metrics(spark):
    return MatcherMetrics()


def test_replicated_index_counts_all_posts_and_matches(spark, posts, metrics, tmp_path):
    index = _index(tmp_path / "index")
    metrics.begin()
    found = matched_posts(select_all_fields(posts), index, shared_path_ref(index), metrics.report).toArrow()
    (load,) = metrics.end(0, 1)
    assert (load.matcher, load.posts) == (0, POSTS)
    assert load.matches == sum(map(len, found["subscriptions"].to_pylist())) > 0
    assert load.seconds > 0


def test_every_matcher_reports_its_posts_and_matches(spark, posts, metrics, tmp_path):
    index = _index(tmp_path / "index", PlanRecord("hash", MATCHERS, 2013))
    metrics.begin()
    found = match_posts(posts, index, shared_path_ref(index), metrics.report).toArrow()
    loads = metrics.end(7, MATCHERS)
    assert [load.matcher for load in loads] == [0, 1, 2]
    assert sum(load.matches for load in loads) >= found.num_rows > 0  # a match found by two matchers counts twice
    assert all(load.posts < POSTS for load in loads), "no matcher receives all posts"
    assert loads == metrics.loads_of(7)


@pytest.mark.parametrize("share", [0, 5_000, 10_000])
def test_replicated_index_reports_a_sample_of_the_posts(spark, posts, tmp_path, share):
    index, metrics = _index(tmp_path / "index"), RoutingMetrics()
    metrics.begin()
    routing = RoutingOptions(report=metrics.report, sample_texts=share)
    matched_posts(select_all_fields(posts), index, shared_path_ref(index), routing=routing).toArrow()
    texts = metrics.end().sample_texts.to_pylist()
    assert abs(len(texts) - POSTS * share / 10_000) < 4, "one post more or less per task"
    expected = {row.text for row in posts.select("text").collect()}
    assert {text.strip() for text in texts} <= {text.strip() for text in expected}


def test_loads_are_reset_between_batches(spark, posts, metrics, tmp_path):
    index = _index(tmp_path / "index")
    for batch, frame in enumerate((posts, posts.limit(10))):
        metrics.begin()
        matched_posts(select_all_fields(frame), index, shared_path_ref(index), metrics.report).toArrow()
        metrics.end(batch, 1)
    assert [metrics.loads_of(batch)[0].posts for batch in (0, 1)] == [POSTS, 10]
    assert metrics.loads_of(2) == ()


def test_only_the_last_batches_are_kept(metrics):
    for batch in range(100):
        metrics.begin()
        metrics.report((MatcherLoad(0, batch, 0, 0.0),))
        metrics.end(batch, 1)
    assert metrics.loads_of(0) == ()
    assert metrics.loads_of(99)[0].posts == 99
