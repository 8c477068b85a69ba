"""What matchers did is measured where they work, and arrives whole."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidings.demo.generate import DEMO_QUERIES, generate_posts
from tidings.index.builder import create_index
from tidings.index.manifest import PlanRecord
from tidings.matching.load import MatcherLoad
from tidings.spark.index_shipping import reference
from tidings.spark.matcher_metrics import LoadMeter
from tidings.spark.pipeline import match_posts, wanted_posts
from tidings.spark.post_columns import whole

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
def meter(spark):
    return LoadMeter()


def test_the_whole_index_sees_every_post_and_finds_every_match(spark, posts, meter, tmp_path):
    index = _index(tmp_path / "index")
    meter.begin()
    found = wanted_posts(whole(posts), index, reference(index), meter.tell).toArrow()
    (load,) = meter.end(0, 1)
    assert (load.matcher, load.posts) == (0, POSTS)
    assert load.matches == sum(map(len, found["subscriptions"].to_pylist())) > 0
    assert load.seconds > 0


def test_every_matcher_tells_what_it_was_sent_and_what_it_found(spark, posts, meter, tmp_path):
    index = _index(tmp_path / "index", PlanRecord("hash", MATCHERS, 2013))
    meter.begin()
    found = match_posts(posts, index, reference(index), meter.tell).toArrow()
    loads = meter.end(7, MATCHERS)
    assert [load.matcher for load in loads] == [0, 1, 2]
    assert sum(load.matches for load in loads) >= found.num_rows > 0  # one found by two matchers is found twice
    assert all(load.posts < POSTS for load in loads), "posts go where they are needed only"
    assert loads == meter.of(7)


def test_a_batch_does_not_inherit_the_load_of_the_one_before(spark, posts, meter, tmp_path):
    index = _index(tmp_path / "index")
    for batch, some in enumerate((posts, posts.limit(10))):
        meter.begin()
        wanted_posts(whole(some), index, reference(index), meter.tell).toArrow()
        meter.end(batch, 1)
    assert [meter.of(batch)[0].posts for batch in (0, 1)] == [POSTS, 10]
    assert meter.of(2) == ()


def test_only_the_last_batches_are_remembered(meter):
    for batch in range(100):
        meter.begin()
        meter.tell((MatcherLoad(0, batch, 0, 0.0),))
        meter.end(batch, 1)
    assert meter.of(0) == ()
    assert meter.of(99)[0].posts == 99
