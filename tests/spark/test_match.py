"""`tidings.match`: both plans and any number of matchers give what the brute force gives, with ids as they came."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T
from tests.data import real_queries, real_tweets
from tests.spark.fixtures import by_brute_force, pairs, subscribed

from tidings.demo.generate import DEMO_QUERIES, generate_posts, generate_queries
from tidings.errors import InputError
from tidings.spark.api import match, prepare, rejected

SPREAD = [
    "storm OR rain OR flood OR goal OR election OR police",
    "within:-30,30,30,60",
    "(fire OR smoke OR police) -goal",
]


@pytest.fixture(scope="module")
def generated(spark):
    """Posts, queries and their matches by brute force."""
    posts = generate_posts(500, seed=11)
    queries = [*DEMO_QUERIES.values(), *generate_queries(400, seed=11), *SPREAD, "(bad", "the"]
    matches = by_brute_force(queries, posts)
    assert len(matches) > 500
    return spark.createDataFrame(posts).repartition(3).cache(), subscribed(spark, queries), matches


def test_generated_posts_match_as_by_brute_force(generated, any_plan):
    posts, subscriptions, matches = generated
    assert pairs(match(posts, subscriptions, **any_plan)) == matches


def test_the_size_of_batches_changes_nothing(spark, generated, plan):
    posts, subscriptions, matches = generated
    some = posts.where("id % 9 = 0")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "3")
    try:
        found = pairs(match(some, subscriptions, **plan))
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10000")
    assert found == [(subscription, post) for subscription, post in matches if post % 9 == 0]


def test_the_plan_is_chosen_when_none_is_named(generated):
    posts, subscriptions, matches = generated
    assert pairs(match(posts, subscriptions)) == matches


def test_real_posts_match_as_by_brute_force(spark, plan):
    tweets = real_tweets(300, skip=5000)
    queries = [*real_queries(1000, skip=500), *(" ".join(text.split()[1:3]) for text in tweets[:200])]
    posts = pa.table({"id": pa.array(range(len(tweets))), "text": tweets})
    matches = by_brute_force(queries, posts)
    assert len(matches) > 200
    assert pairs(match(spark.createDataFrame(posts), subscribed(spark, queries), **plan)) == matches


IDS = {
    "bigint": (T.LongType(), [2**62, -5]),
    "int": (T.IntegerType(), [7, -5]),
    "string": (T.StringType(), ["007", "7 "]),
    "decimal": (T.DecimalType(38, 2), [Decimal("123456789012345678901234567890.50"), Decimal("-0.07")]),
}


@pytest.mark.parametrize("kind", IDS)
def test_ids_keep_their_type_and_value(spark, kind, plan):
    own_type, own = IDS[kind]
    posts = spark.createDataFrame(
        [(own[0], "cats"), (own[1], "dogs")], T.StructType().add("id", own_type).add("text", "string")
    )
    table = T.StructType().add("id", own_type).add("query", "string")
    subscriptions = spark.createDataFrame([(own[0], "cat OR bird OR lynx OR fish"), (own[1], "dog")], table)
    matches = match(posts, subscriptions, **plan)
    assert matches.schema["post_id"].dataType == own_type
    assert matches.schema["subscription_id"].dataType == own_type
    assert pairs(matches) == sorted([(own[0], own[0]), (own[1], own[1])], key=str)


@pytest.mark.parametrize("own", ["cast(id as date)", "cast(id as timestamp)", "cast(id as binary)", "id = 1"])
def test_posts_may_have_ids_of_unusual_types(spark, own, plan):
    stamp = "2026-01-01" if "date" in own or "time" in own else "1"
    posts = spark.createDataFrame([(stamp, "cats")], "id string, text string").selectExpr(f"{own} as id", "text")
    matches = match(posts, subscribed(spark, ["cat OR dog OR fish"]), **plan)
    assert matches.schema["post_id"].dataType == posts.schema["id"].dataType
    assert [row.post_id for row in matches.collect()] == [row.id for row in posts.collect()]


def test_a_missing_id_becomes_a_stable_one(spark, plan):
    texts = ["cats", "more cats", "dogs", "cats"]
    posts = spark.createDataFrame([(text,) for text in texts], "text string")
    subscriptions = subscribed(spark, ["cat", "dog OR bird OR fish"])
    once = pairs(match(posts, subscriptions, **plan))
    again = pairs(match(posts.repartition(3), subscriptions, **plan))
    assert once == again
    assert len(once) == 4
    assert len({post for _, post in once}) == 3, "two posts of the same content have the same id"
    assert all(isinstance(post, str) and post for _, post in once)


@pytest.mark.parametrize("kind", ["string", "bigint"])
def test_null_ids_become_stable_ones(spark, kind):
    rows = [("5", "cats"), (None, "cats again"), (None, "dogs")]
    posts = spark.createDataFrame(rows, "id string, text string").withColumn("id", F.col("id").cast(kind))
    subscriptions = subscribed(spark, ["cat", "dog"])
    once = pairs(match(posts, subscriptions))
    assert once == pairs(match(posts.repartition(2), subscriptions))
    assert len({post for _, post in once}) == 3
    assert all(post is not None for _, post in once)
    assert rejected(posts).count() == 0


def test_null_ids_of_other_types_are_rejected(spark):
    posts = spark.createDataFrame([(5, "cats"), (None, "cats")], "id int, text string")
    assert pairs(match(posts, subscribed(spark, ["cat"]))) == [(0, 5)]
    assert [row.reason for row in rejected(posts).collect()] == ["no id"]


def test_title_and_tags_are_searched_and_no_phrase_reaches_across(spark, plan):
    schema = "id int, text string, title string, tags array<string>"
    rows = [
        (1, "house", "white", None),
        (2, "white house", None, []),
        (3, "lynx", "the Cats", ["White House", None, "東京", "", "c++"]),
        (4, "lynx", None, None),
    ]
    queries = ["white house", '"white house"', "cat", "#white_house", "#東京", "東京", "#c", "lynx"]
    found = pairs(match(spark.createDataFrame(rows, schema), subscribed(spark, queries), **plan))
    by_post = {post: [queries[number] for number, own in found if own == post] for post in (1, 2, 3, 4)}
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
    assert pairs(match(posts, subscribed(spark, queries))) == [(number, 1) for number in range(4)]


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
    assert pairs(match(posts, spark.createDataFrame(table), **plan)) == [(0, 1), (1, 1), (2, 1), (2, 4)]


def test_posts_that_share_an_id_are_matched_each_for_itself(spark, plan):
    posts = spark.createDataFrame([(1, "cats"), (1, "cats and dogs"), (2, "cats")], "id int, text string")
    subscriptions = subscribed(spark, ["cat", "dog OR cat OR bird"])
    assert pairs(match(posts, subscriptions, **plan)) == [(0, 1), (0, 1), (0, 2), (1, 1), (1, 1), (1, 2)]


def test_unique_reports_posts_that_share_an_id_once(spark, plan):
    posts = spark.createDataFrame([(1, "cats"), (1, "cats and dogs"), (2, "cats"), (3, None)], "id int, text string")
    subscriptions = subscribed(spark, ["cat", "dog OR bird"])
    assert pairs(match(posts, subscriptions, unique=True, **plan)) == [(0, 1), (0, 2), (1, 1)]


def test_no_posts_and_no_subscriptions_give_no_matches(spark, plan):
    none = spark.createDataFrame([], "id int, text string")
    some = spark.createDataFrame([(1, "cats")], "id int, text string")
    assert pairs(match(none, subscribed(spark, ["cat OR dog"]), **plan)) == []
    assert pairs(match(some, subscribed(spark, []), **plan)) == []
    assert pairs(match(some, subscribed(spark, ["the", "(cat", "-dog"]), **plan)) == []
    assert (
        pairs(match(spark.createDataFrame([(1, "")], "id int, text string"), subscribed(spark, ["cat"]), **plan)) == []
    )


def test_bad_subscriptions_are_left_out_with_their_reasons(spark):
    table = pa.table({"id": ["a", "b", None, "a", "c", "d"], "query": ["cat", "(dog", "cat", "dog", None, "the"]})
    posts = spark.createDataFrame([(1, "cats and dogs")], "id int, text string")
    matching = prepare(posts, table)
    assert pairs(matching.matches) == [("a", 1)]
    assert matching.subscriptions == 1
    assert {(one.line, one.id) for one in matching.rejected} == {
        (2, "b"),
        (3, None),
        (4, "a"),
        (5, "c"),
        (6, "d"),
    }
    assert all(one.reason for one in matching.rejected)


def test_the_line_of_a_refused_query_is_its_row_even_after_rejected_rows(spark):
    table = pa.table({"id": pa.array([None, "a", "b"]), "query": ["cat", "(dog", "cat"]})
    posts = spark.createDataFrame([(1, "cats")], "id int, text string")
    told = {(one.line, one.id) for one in prepare(posts, table).rejected}
    assert told == {(1, None), (2, "a")}


def test_matches_can_be_used_like_any_dataframe(generated):
    posts, subscriptions, matches = generated
    found = match(posts, subscriptions, plan="partitioned", matchers=2)
    joined = found.join(subscriptions, found.subscription_id == subscriptions.id).groupBy("query").count()
    assert sum(row["count"] for row in joined.collect()) == len(matches)
    assert found.where("post_id = 1").count() == sum(post == 1 for _, post in matches)


@pytest.mark.parametrize(
    ("columns", "wrong"),
    [
        ("id int, words string", "text"),
        ("id int, text int", "not text"),
        ("id int, text string, lat double", "`lat` and `lon`"),
    ],
)
def test_posts_without_usable_columns_are_refused_at_once(spark, columns, wrong):
    with pytest.raises(InputError, match=wrong):
        match(spark.createDataFrame([], columns), subscribed(spark, ["cat"]))


@pytest.mark.parametrize(
    ("options", "wrong"),
    [({"plan": "sideways"}, "plan"), ({"matchers": 0}, "matchers"), ({"partitioner": "astrology"}, "partitioner")],
)
def test_impossible_options_are_refused_at_once(spark, options, wrong):
    posts = spark.createDataFrame([(1, "cats")], "id int, text string")
    with pytest.raises(InputError, match=wrong):
        match(posts, subscribed(spark, ["cat"]), **options)


def test_the_index_version_is_told(spark):
    posts = spark.createDataFrame([(1, "cats")], "id int, text string")
    row = match(posts, subscribed(spark, ["cat"])).first()
    assert (row.subscription_id, row.post_id, row.index_version) == (0, 1, 1)
