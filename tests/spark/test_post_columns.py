"""Hostile posts: one bad row never stops the job, matches nothing, and is told by `rejected` with its reason."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F
from tests.spark.fixtures import pairs, subscribed

from tidings.config import MAX_TEXT_BYTES
from tidings.spark.api import match, rejected

# What every post with a word or a position is found by.
QUERIES = ["cat", "within:-180,-90,180,90", '"white cat"', "#tagged", "cat -dog"]
NAN = float("nan")


def found_and_rejected(posts, spark, plan) -> tuple[set, dict]:
    """(the ids of posts that match anything, the reasons of those that are rejected by id)."""
    found = {post for _, post in pairs(match(posts, subscribed(spark, QUERIES), **plan))}
    rows = rejected(posts).collect()
    reasons = {row.post_id: row.reason for row in rows}
    assert len(reasons) == len(rows), "a post is rejected once"
    return found, reasons


def check(posts, spark, plan, fit: set, unfit: dict) -> None:
    """Every post is either fit, and matches, or unfit, and is rejected with this in its reason: both judges agree."""
    found, reasons = found_and_rejected(posts, spark, plan)
    assert found == fit
    assert set(reasons) == set(unfit)
    for post, reason in unfit.items():
        assert reason in reasons[post]


def test_texts_of_all_kinds(spark, plan):
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
    unfit = {"null": "no text", "over 1 MB": f"{limit:,}", "over 1 MB of é": f"{limit:,}"}
    check(posts, spark, plan, {name for name, _ in rows} - set(unfit), unfit)


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
def test_text_that_is_not_utf8(spark, plan, column, tmp_path):
    """With a position, so that a region alone would match them."""
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


def test_titles_and_tags_that_are_not_utf8_harm_nobody_else(spark, plan):
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
    assert found.isdisjoint(reasons), "both judges agree"
    assert found | set(reasons) == {1, 2, 3}, "nothing is lost without a word"


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
UNFIT_POSITIONS = {
    "north of north": "lat",
    "south of south": "lat",
    "east of east": "lon",
    "infinite": "lat",
    "infinite east": "lon",
    "both": "lat",
}


@pytest.mark.parametrize("kind", ["double", "string"])
def test_positions_of_all_kinds(spark, plan, kind):
    posts = spark.createDataFrame(
        [(name, "cat", *where) for name, *where in POSITIONS], "id string, text string, lat double, lon double"
    )
    posts = posts.withColumns({name: F.col(name).cast(kind) for name in ("lat", "lon")})
    fit = {name for name, *_ in POSITIONS if name not in UNFIT_POSITIONS}
    check(posts, spark, plan, fit, UNFIT_POSITIONS)


def test_positions_that_are_strings(spark, plan):
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
    unfit = {
        "words": "lat is not a number",
        "comma": "lat is not a number",
        "too far": "lat",
        "lon too": "lon is not a number",
    }
    check(posts, spark, plan, {name for name, *_ in rows} - set(unfit), unfit)


def test_a_position_without_text_is_rejected_and_matches_no_region(spark, plan):
    posts = spark.createDataFrame(
        [(1, None, 5.0, 5.0), (2, "", 5.0, 5.0)], "id int, text string, lat double, lon double"
    )
    check(posts, spark, plan, {2}, {1: "no text"})


def test_lines_that_cannot_be_read_are_rejected(spark, plan, tmp_path):
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


def test_a_line_that_cannot_be_read_is_not_matched_even_if_some_of_it_was(spark, plan):
    rows = [("a", "cats", None), ("b", "cats", '{"id": "b", "text": "cats", "lat": ')]
    posts = spark.createDataFrame(rows, "id string, text string, _corrupt_record string")
    check(posts, spark, plan, {"a"}, {"b": "cannot be read"})


def test_a_column_of_nulls_and_no_rows_at_all_are_posts(spark, plan):
    nulls = spark.sql("select 1 as id, null as text")
    check(nulls, spark, plan, set(), {1: "no text"})
    check(nulls.limit(0), spark, plan, set(), {})


def test_the_beginning_of_a_rejected_text_is_shown(spark):
    posts = spark.createDataFrame([(1, "é" * MAX_TEXT_BYTES)], "id int, text string")
    assert rejected(posts).columns == ["post_id", "reason", "text"]
    assert rejected(posts).first().text == "é" * 200


def test_odd_columns_beside_the_known_ones_do_no_harm(spark, plan):
    posts = spark.createDataFrame(
        [(1, "cats", {"a": [1]}, "x", 3)],
        "id int, text string, extra map<string, array<int>>, `a.b` string, reason int",
    )
    check(posts, spark, plan, {1}, {})
