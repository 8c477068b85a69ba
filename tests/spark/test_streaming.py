"""A stream of posts has the same matches as the same posts in a batch."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from tests.spark.fixtures import collect_pairs, expected_pairs, make_subscriptions

from tidings.demo.generate import DEMO_QUERIES, generate_posts, generate_queries
from tidings.spark.api import match

QUERIES = [*DEMO_QUERIES.values(), *generate_queries(100, seed=2), "storm OR goal OR election OR police OR rain"]


@pytest.fixture
def files(tmp_path):
    """Posts in three files, for three micro-batches."""
    posts = generate_posts(300, seed=2)
    (tmp_path / "posts").mkdir()
    for number in range(3):
        pq.write_table(posts.slice(number * 100, 100), tmp_path / "posts" / f"{number}.parquet")
    return posts, tmp_path


def stream(spark, folder, schema):
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def test_stream_returns_the_matches_of_the_batch(spark, files, plan):
    posts, folder = files
    schema = spark.read.parquet(str(folder / "posts")).schema
    found = match(stream(spark, folder / "posts", schema), make_subscriptions(spark, QUERIES), **plan)
    assert found.isStreaming
    name = "found_" + str(plan.get("matchers", "all"))
    query = found.writeStream.format("memory").queryName(name).outputMode("append").trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert len([batch for batch in query.recentProgress if batch.numInputRows]) == 3
    assert collect_pairs(spark.table(name)) == expected_pairs(QUERIES, posts)


def test_restarted_stream_continues_from_its_checkpoint(spark, files, plan):
    posts, folder = files
    schema = spark.read.parquet(str(folder / "posts")).schema
    late = folder / "posts" / "2.parquet"
    late.rename(folder / "2.parquet")
    for _ in range(2):
        found = match(stream(spark, folder / "posts", schema), make_subscriptions(spark, QUERIES), **plan)
        writer = found.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(folder / "out"))
        assert query.awaitTermination(120)
        if not late.exists():
            (folder / "2.parquet").rename(late)
    assert collect_pairs(spark.read.parquet(str(folder / "out"))) == expected_pairs(QUERIES, posts)
