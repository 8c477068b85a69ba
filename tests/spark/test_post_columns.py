"""Invalid posts never stop a job: they match nothing, and `rejected` returns them with a reason."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F
from tests.spark.fixtures import collect_pairs, make_subscriptions

from tidings.config import MAX_TEXT_BYTES
from tidings.spark.api import match, rejected

# Every post with a term or a position matches one of them.
QUERIES = ["cat", "within:-180,-90,180,90", '"white cat"', "#tagged", "cat -dog"]
NAN = float("nan")


def found_and_rejected(posts, spark, plan) -> tuple[set, dict]:
    """Return the ids of posts that match anything, and the reasons of rejected posts by id."""
    found = {post for _, post in collect_pairs(match(posts, make_subscriptions(spark, QUERIES), **plan))}
    rows = rejected(posts).collect()
    reasons = {row.post_id: row.reason for row in rows}
    assert len(reasons) == len(rows), "a post is rejected once"
    return found, reasons


def check(posts, spark, plan, accepted: set, invalid: dict) -> None:
    """Check that every post matches or is rejected with this reason: SQL and workers agree."""
    found, reasons = found_and_rejected(posts, spark, plan)
    assert found == accepted
    assert set(reasons) == set(invalid)
    for post, reason in invalid.items():
        assert reason in reasons[post]


def test_long_empty_and_unusual_texts(spark, plan):
    limit = MAX_TEXT_BYTES
    rows = [
        ("fine", "cats"),
        ("null", None),
        ("1 MB", ("cat " * limit)[:limit]),
        ("over 1 MB", ("cat " * limit)[: limit + 1]),
        ("over 1 MB of é", "é" * (limit // 2) + " cat"),
        ("1 MB of one word", "x" * (limit - 4) + " cat"),
        ("controls", "\x00\x01\x1f cat \x7f\x00"),
        ("right to left", "\u202ecat\u202c שלום"),
        ("emoji", "🐈‍⬛ cat 🏳️‍🌈"),
    ]
    posts = spark.createDataFrame(rows, "id string, text string").repartition(2)
    invalid = {"null": "the text is missing", "over 1 MB": f"{limit:,}", "over 1 MB of é": f"{limit:,}"}
    check(posts, spark, plan, {name for name, _ in rows} - set(invalid), invalid)


INVALID = {
    "lone byte": b"cat \xff",
    "cut off": b"cat \xe6\x9d",
    "surrogate": b"cat \xed\xa0\x80",
    "overlong": b"cat \xc0\xaf",
    "beyond": b"cat \xf4\x90\x80\x80",
    "in a word": b"c\xffat cat",
    "in a link": b"http://x.y/\xff cat",
    "with an entity": b"cat &eacute; \xff",
    "latin 1": "café cat".encode("latin-1"),
    "only": b"\xff",
}


@pytest.mark.parametrize("column", ["binary", "string from binary", "string in Parquet"])
def test_invalid_utf8_text_is_rejected(spark, plan, column, tmp_path):
    """The posts have a position, so that a region alone would match them."""
    names = ["fine", *INVALID]
    texts = ["cats ✓".encode(), *INVALID.values()]
    table = pa.table(
        {"id": names, "text": pa.array(texts, pa.binary()), "lat": [1.0] * len(names), "lon": [1.0] * len(names)}
    )
    if column == "string in Parquet":  # as some writers make it
        text = pa.array(texts, pa.binary()).view(pa.string())
        table = table.set_column(1, "text", text)
    pq.write_table(table, tmp_path / "posts.parquet")
    posts = spark.read.parquet(str(tmp_path / "posts.parquet"))
    if column == "string from binary":
        posts = posts.withColumn("text", F.col("text").cast("string"))
    check(posts, spark, plan, {"fine"}, dict.fromkeys(INVALID, "UTF-8"))
    assert all(row.text is not None for row in rejected(posts).collect())


def test_invalid_utf8_in_titles_and_tags_does_not_affect_other_posts(spark, plan):
    rows = [
        (1, "cats", "636174", "746167676564"),
        (2, "cats", "ff636174", "746167676564"),
        (3, "cats", None, "ff746167"),
    ]
    posts = spark.createDataFrame(rows, "id int, text string, title string, tag string").select(
        "id",
        "text",
        F.unhex("title").cast("string").alias("title"),
        F.array(F.unhex("tag").cast("string")).alias("tags"),
    )
    found, reasons = found_and_rejected(posts, spark, plan)
    assert 1 in found
    assert 1 not in reasons
    assert found.isdisjoint(reasons), "SQL and workers agree"
    assert found | set(reasons) == {1, 2, 3}, "every post matches or is rejected"


POSITIONS = [
    ("fine", 89.9, 179.9),
    ("corner", 90.0, -180.0),
    ("other corner", -90.0, 180.0),
    ("none", None, None),
    ("half", 5.0, None),
    ("not a number", NAN, 5.0),
    ("north of north", 90.001, 0.0),
    ("south of south", -91.0, 0.0),
    ("east of east", 0.0, 180.1),
    ("infinite", float("inf"), 0.0),
    ("infinite east", 0.0, float("-inf")),
    ("both", 1e308, -1e308),
]
INVALID_POSITIONS = {
    "north of north": "lat",
    "south of south": "lat",
    "east of east": "lon",
    "infinite": "lat",
    "infinite east": "lon",
    "both": "lat",
}


@pytest.mark.parametrize("kind", ["double", "string"])
def test_positions_out_of_range_are_rejected(spark, plan, kind):
    posts = spark.createDataFrame(
        [(name, "cat", *where) for name, *where in POSITIONS], "id string, text string, lat double, lon double"
    )
    posts = posts.withColumns({name: F.col(name).cast(kind) for name in ("lat", "lon")})
    accepted = {name for name, *_ in POSITIONS if name not in INVALID_POSITIONS}
    check(posts, spark, plan, accepted, INVALID_POSITIONS)


def test_positions_may_be_strings(spark, plan):
    rows = [
        ("fine", " 5.5 ", "5"),
        ("exponent", "1e1", "5"),
        ("empty", "", ""),
        ("blank", "  ", None),
        ("words", "north", "5"),
        ("comma", "5,5", "5"),
        ("too far", "95", "5"),
        ("lon too", "5", "east"),
    ]
    posts = spark.createDataFrame(
        [(name, "cat", *where) for name, *where in rows], "id string, text string, lat string, lon string"
    )
    invalid = {
        "words": "lat is not a number",
        "comma": "lat is not a number",
        "too far": "lat",
        "lon too": "lon is not a number",
    }
    check(posts, spark, plan, {name for name, *_ in rows} - set(invalid), invalid)


def test_post_with_position_but_null_text_matches_no_region(spark, plan):
    posts = spark.createDataFrame(
        [(1, None, 5.0, 5.0), (2, "", 5.0, 5.0)], "id int, text string, lat double, lon double"
    )
    check(posts, spark, plan, {2}, {1: "the text is missing"})


def test_unreadable_lines_are_rejected(spark, plan, tmp_path):
    lines = [
        '{"id": "a", "text": "cats"}',
        "{not json",
        '{"id": "b", "text": "cats"}',
        '{"id": "c", "text": "cats", "lat": "x}',
    ]
    (tmp_path / "posts.jsonl").write_text("\n".join(lines))
    schema = "id string, text string, _corrupt_record string"
    posts = spark.read.schema(schema).json(str(tmp_path / "posts.jsonl")).cache()
    found, reasons = found_and_rejected(posts.where("id is not null or _corrupt_record like '{not%'"), spark, plan)
    assert found == {"a", "b"}
    assert list(reasons.values()) == ["the line cannot be read"]


def test_partially_read_lines_are_not_matched(spark, plan):
    rows = [("a", "cats", None), ("b", "cats", '{"id": "b", "text": "cats", "lat": ')]
    posts = spark.createDataFrame(rows, "id string, text string, _corrupt_record string")
    check(posts, spark, plan, {"a"}, {"b": "cannot be read"})


def test_null_typed_text_and_empty_frames_are_accepted(spark, plan):
    nulls = spark.sql("select 1 as id, null as text")
    check(nulls, spark, plan, set(), {1: "the text is missing"})
    check(nulls.limit(0), spark, plan, set(), {})


def test_rejected_text_is_cut_to_200_characters(spark):
    posts = spark.createDataFrame([(1, "é" * MAX_TEXT_BYTES)], "id int, text string")
    assert rejected(posts).columns == ["post_id", "reason", "text"]
    assert rejected(posts).first().text == "é" * 200


def test_unknown_columns_are_ignored(spark, plan):
    posts = spark.createDataFrame(
        [(1, "cats", {"a": [1]}, "x", 3)],
        "id int, text string, extra map<string, array<int>>, `a.b` string, reason int",
    )
    check(posts, spark, plan, {1}, {})
