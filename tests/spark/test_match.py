"""`tidings.match` returns the brute-force matches in both modes and with any number of matchers."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T
from tests.data import real_queries, real_tweets
from tests.spark.fixtures import collect_pairs, expected_pairs, make_subscriptions

from tidings.demo.generate import DEMO_QUERIES, generate_posts, generate_queries
from tidings.errors import InputError
from tidings.spark.api import match, prepare_match, rejected

SPREAD = [
    "storm OR rain OR flood OR goal OR election OR police",
    "within:-30,30,30,60",
    "(fire OR smoke OR police) -goal",
]


@pytest.fixture(scope="module")
def workload(spark):
    """Posts, queries and their matches by brute force."""
    posts = generate_posts(500, seed=11)
    queries = [*DEMO_QUERIES.values(), *generate_queries(400, seed=11), *SPREAD, "(bad", "the"]
    matches = expected_pairs(queries, posts)
    assert len(matches) > 500
    return spark.createDataFrame(posts).repartition(3).cache(), make_subscriptions(spark, queries), matches


def test_generated_posts_match_as_in_brute_force(workload, any_plan):
    posts, subscriptions, matches = workload
    assert collect_pairs(match(posts, subscriptions, **any_plan)) == matches


def test_matches_do_not_depend_on_batch_size(spark, workload, plan):
    posts, subscriptions, matches = workload
    selected = posts.where("id % 9 = 0")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "3")
    try:
        found = collect_pairs(match(selected, subscriptions, **plan))
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10000")
    assert found == [(subscription, post) for subscription, post in matches if post % 9 == 0]


def test_auto_mode_returns_all_matches(workload):
    posts, subscriptions, matches = workload
    assert collect_pairs(match(posts, subscriptions)) == matches


@pytest.mark.real_data
def test_real_posts_match_as_in_brute_force(spark, plan):
    tweets = real_tweets(300, skip=5000)
    queries = [*real_queries(1000, skip=500), *(" ".join(text.split()[1:3]) for text in tweets[:200])]
    posts = pa.table({"id": pa.array(range(len(tweets))), "text": tweets})
    matches = expected_pairs(queries, posts)
    assert len(matches) > 200
    assert collect_pairs(match(spark.createDataFrame(posts), make_subscriptions(spark, queries), **plan)) == matches


IDS = {
    "bigint": (T.LongType(), [2**62, -5]),
    "int": (T.IntegerType(), [7, -5]),
    "string": (T.StringType(), ["007", "7 "]),
    "decimal": (T.DecimalType(38, 2), [Decimal("123456789012345678901234567890.50"), Decimal("-0.07")]),
}


@pytest.mark.parametrize("kind", IDS)
def test_ids_keep_their_type_and_value(spark, kind, plan):
    id_type, ids = IDS[kind]
    posts = spark.createDataFrame(
        [(ids[0], "cats"), (ids[1], "dogs")], T.StructType().add("id", id_type).add("text", "string")
    )
    table = T.StructType().add("id", id_type).add("query", "string")
    subscriptions = spark.createDataFrame([(ids[0], "cat OR bird OR lynx OR fish"), (ids[1], "dog")], table)
    matches = match(posts, subscriptions, **plan)
    assert matches.schema["post_id"].dataType == id_type
    assert matches.schema["subscription_id"].dataType == id_type
    assert collect_pairs(matches) == sorted([(ids[0], ids[0]), (ids[1], ids[1])], key=str)


@pytest.mark.parametrize("own", ["cast(id as date)", "cast(id as timestamp)", "cast(id as binary)", "id = 1"])
def test_posts_may_have_ids_of_unusual_types(spark, own, plan):
    stamp = "2026-01-01" if "date" in own or "time" in own else "1"
    posts = spark.createDataFrame([(stamp, "cats")], "id string, text string").selectExpr(f"{own} as id", "text")
    matches = match(posts, make_subscriptions(spark, ["cat OR dog OR fish"]), **plan)
    assert matches.schema["post_id"].dataType == posts.schema["id"].dataType
    assert [row.post_id for row in matches.collect()] == [row.id for row in posts.collect()]


def test_missing_ids_are_generated_and_stable(spark, plan):
    texts = ["cats", "more cats", "dogs", "cats"]
    posts = spark.createDataFrame([(text,) for text in texts], "text string")
    subscriptions = make_subscriptions(spark, ["cat", "dog OR bird OR fish"])
    once = collect_pairs(match(posts, subscriptions, **plan))
    again = collect_pairs(match(posts.repartition(3), subscriptions, **plan))
    assert once == again
    assert len(once) == 4
    assert len({post for _, post in once}) == 3, "two posts of the same content have the same id"
    assert all(isinstance(post, str) and post for _, post in once)


@pytest.mark.parametrize("kind", ["string", "bigint"])
def test_null_ids_are_generated_and_stable(spark, kind):
    rows = [("5", "cats"), (None, "cats again"), (None, "dogs")]
    posts = spark.createDataFrame(rows, "id string, text string").withColumn("id", F.col("id").cast(kind))
    subscriptions = make_subscriptions(spark, ["cat", "dog"])
    once = collect_pairs(match(posts, subscriptions))
    assert once == collect_pairs(match(posts.repartition(2), subscriptions))
    assert len({post for _, post in once}) == 3
    assert all(post is not None for _, post in once)
    assert rejected(posts).count() == 0


def test_null_ids_of_other_types_are_rejected(spark):
    posts = spark.createDataFrame([(5, "cats"), (None, "cats")], "id int, text string")
    assert collect_pairs(match(posts, make_subscriptions(spark, ["cat"]))) == [(0, 5)]
    assert [row.reason for row in rejected(posts).collect()] == ["the id is missing"]


def test_title_and_tags_are_searched_and_phrases_do_not_cross_fields(spark, plan):
    schema = "id int, text string, title string, tags array<string>"
    rows = [
        (1, "house", "white", None),
        (2, "white house", None, []),
        (3, "lynx", "the Cats", ["White House", None, "東京", "", "c++"]),
        (4, "lynx", None, None),
    ]
    queries = ["white house", '"white house"', "cat", "#white_house", "#東京", "東京", "#c", "lynx"]
    found = collect_pairs(match(spark.createDataFrame(rows, schema), make_subscriptions(spark, queries), **plan))
    by_post = {post: [queries[number] for number, matched in found if matched == post] for post in (1, 2, 3, 4)}
    assert by_post == {
        1: ["white house"],
        2: ["white house", '"white house"'],
        3: ["white house", '"white house"', "cat", "#white_house", "#東京", "東京", "#c", "lynx"],
        4: ["lynx"],
    }


@pytest.mark.parametrize("tags", ["cat, white_house;dog", "cat white_house\tdog"])
def test_tags_may_be_one_string(spark, tags):
    posts = spark.createDataFrame([(1, "", tags), (2, "", None), (3, "", "")], "id int, text string, tags string")
    queries = ["#cat", "#white_house", "#dog", "house"]
    assert collect_pairs(match(posts, make_subscriptions(spark, queries))) == [(number, 1) for number in range(4)]


def test_regions_come_in_the_query_or_in_a_column(spark, plan):
    regions = [None, [0.0, 0.0, 9.0, 9.0], [0.0, 0.0, 9.0, 9.0], [9.0, 9.0, 0.0, 0.0]]
    table = pa.table(
        {
            "id": [0, 1, 2, 3],
            "query": ["cat within:0,0,9,9", "cat", None, "cat"],
            "region": pa.array(regions, pa.list_(pa.float64())),
        }
    )
    rows = [
        (1, "cats", 3.0, 3.0),
        (2, "cats", 30.0, 3.0),
        (3, "cats", None, None),
        (4, "dogs", 9.0, 0.0),
        (5, "cats", 3.0, None),
    ]
    posts = spark.createDataFrame(rows, "id int, text string, lat double, lon double")
    assert collect_pairs(match(posts, spark.createDataFrame(table), **plan)) == [(0, 1), (1, 1), (2, 1), (2, 4)]


def test_posts_that_share_an_id_are_matched_separately(spark, plan):
    posts = spark.createDataFrame([(1, "cats"), (1, "cats and dogs"), (2, "cats")], "id int, text string")
    subscriptions = make_subscriptions(spark, ["cat", "dog OR cat OR bird"])
    assert collect_pairs(match(posts, subscriptions, **plan)) == [(0, 1), (0, 1), (0, 2), (1, 1), (1, 1), (1, 2)]


def test_unique_reports_posts_that_share_an_id_once(spark, plan):
    posts = spark.createDataFrame([(1, "cats"), (1, "cats and dogs"), (2, "cats"), (3, None)], "id int, text string")
    subscriptions = make_subscriptions(spark, ["cat", "dog OR bird"])
    assert collect_pairs(match(posts, subscriptions, unique=True, **plan)) == [(0, 1), (0, 2), (1, 1)]


def test_no_posts_and_no_subscriptions_give_no_matches(spark, plan):
    no_posts = spark.createDataFrame([], "id int, text string")
    one_post = spark.createDataFrame([(1, "cats")], "id int, text string")
    assert collect_pairs(match(no_posts, make_subscriptions(spark, ["cat OR dog"]), **plan)) == []
    assert collect_pairs(match(one_post, make_subscriptions(spark, []), **plan)) == []
    assert collect_pairs(match(one_post, make_subscriptions(spark, ["the", "(cat", "-dog"]), **plan)) == []
    assert (
        collect_pairs(
            match(spark.createDataFrame([(1, "")], "id int, text string"), make_subscriptions(spark, ["cat"]), **plan)
        )
        == []
    )


def test_invalid_subscriptions_are_rejected_with_reasons(spark):
    table = pa.table({"id": ["a", "b", None, "a", "c", "d"], "query": ["cat", "(dog", "cat", "dog", None, "the"]})
    posts = spark.createDataFrame([(1, "cats and dogs")], "id int, text string")
    prepared = prepare_match(posts, table)
    assert collect_pairs(prepared.matches) == [("a", 1)]
    assert prepared.subscriptions == 1
    assert {(row.line, row.id) for row in prepared.rejected} == {
        (2, "b"),
        (3, None),
        (4, "a"),
        (5, "c"),
        (6, "d"),
    }
    assert all(row.reason for row in prepared.rejected)


def test_invalid_query_keeps_its_line_after_rejected_rows(spark):
    table = pa.table({"id": pa.array([None, "a", "b"]), "query": ["cat", "(dog", "cat"]})
    posts = spark.createDataFrame([(1, "cats")], "id int, text string")
    lines = {(row.line, row.id) for row in prepare_match(posts, table).rejected}
    assert lines == {(1, None), (2, "a")}


def test_matches_join_and_filter_like_any_dataframe(workload):
    posts, subscriptions, matches = workload
    found = match(posts, subscriptions, plan="partitioned", matchers=2)
    joined = found.join(subscriptions, found.subscription_id == subscriptions.id).groupBy("query").count()
    assert sum(row["count"] for row in joined.collect()) == len(matches)
    assert found.where("post_id = 1").count() == sum(post == 1 for _, post in matches)


@pytest.mark.parametrize(
    ("columns", "wrong"),
    [
        ("id int, words string", "text"),
        ("id int, text int", "Cast it"),
        ("id int, text string, lat double", "`lat` and `lon`"),
    ],
)
def test_invalid_columns_raise_an_error(spark, columns, wrong):
    with pytest.raises(InputError, match=wrong):
        match(spark.createDataFrame([], columns), make_subscriptions(spark, ["cat"]))


@pytest.mark.parametrize(
    ("options", "wrong"),
    [({"plan": "sideways"}, "plan"), ({"matchers": 0}, "matchers"), ({"partitioner": "astrology"}, "partitioner")],
)
def test_invalid_options_raise_an_error(spark, options, wrong):
    posts = spark.createDataFrame([(1, "cats")], "id int, text string")
    with pytest.raises(InputError, match=wrong):
        match(posts, make_subscriptions(spark, ["cat"]), **options)


def test_matches_have_the_index_version(spark):
    posts = spark.createDataFrame([(1, "cats")], "id int, text string")
    row = match(posts, make_subscriptions(spark, ["cat"])).first()
    assert (row.subscription_id, row.post_id, row.index_version) == (0, 1, 1)
