"""Spatial plans on Spark: posts with positions, subscriptions with and without terms and regions, each match once."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from tests.data import shared
from tests.spark.fixtures import collect_pairs, expected_pairs, make_subscriptions

from tidings.balance.spatial_registry import SPATIAL_PARTITIONERS
from tidings.demo.generate import generate_posts, generate_queries
from tidings.spark.api import match
from tidings_lab.spatial_workload import Tweets, draw_subscriptions

every_partitioner = pytest.mark.parametrize("name", SPATIAL_PARTITIONERS)
MIXED = [
    "within:-30,30,30,60",
    "within:-180,-90,180,90 -storm",
    "near:51.5,-0.13,500",
    "rain OR storm OR near:40,-74,300",
    "(fire OR smoke OR police) -within:0,0,90,90",
]


@pytest.fixture(scope="module")
def workload(spark):
    posts = generate_posts(400, seed=13)
    queries = [*generate_queries(250, seed=13), *MIXED]
    matches = expected_pairs(queries, posts)
    assert len(matches) > 400
    return spark.createDataFrame(posts).repartition(3).cache(), make_subscriptions(spark, queries), matches


@every_partitioner
def test_generated_posts_match_as_in_brute_force(workload, name):
    posts, subscriptions, matches = workload
    assert collect_pairs(match(posts, subscriptions, plan="partitioned", matchers=4, partitioner=name)) == matches


@pytest.mark.real_data
@pytest.mark.parametrize("name", ["hybrid", "kdtree", "metric"])
def test_real_tweets_match_as_in_brute_force(spark, name):
    tweets = pq.read_table(shared("geo_tweets.parquet"), columns=["text", "lat", "lon"]).slice(1000, 300)
    drawn = draw_subscriptions("Q3", 300, Tweets.of(tweets), seed=3)
    boxes = [",".join(map(str, box)) for box in drawn.column("region").to_pylist()]
    queries = [f"({text}) within:{box}" for text, box in zip(drawn.column("query").to_pylist(), boxes, strict=True)]
    posts = tweets.add_column(0, "id", [list(range(len(tweets)))])
    matches = expected_pairs([*queries, *MIXED], posts)
    assert len(matches) > 100
    found = match(
        spark.createDataFrame(posts),
        make_subscriptions(spark, [*queries, *MIXED]),
        plan="partitioned",
        matchers=3,
        partitioner=name,
    )
    assert collect_pairs(found) == matches
