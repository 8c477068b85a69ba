"""Posts are checked one by one, in Arrow batches and in Spark SQL: all reject the same rows for the same reason."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidings.config import MAX_TEXT_BYTES
from tidings.ingest.validation import (
    COORDINATE_LIMITS,
    MAX_ID_BYTES,
    UNREADABLE_LINE,
    invalid_rows,
    missing_field,
    not_a_number,
    not_utf8,
    out_of_range,
    post_reject_reason,
    reject_reason_sql,
    too_long,
)
from tidings.schemas import CORRUPT_RECORD
from tidings.text.analyzer import Analyzer
from tidings.text.searchable import read_positions
from tidings.text.vocabulary import Interner

TEXTS = [None, b"", b"cat", "東京".encode(), b"\xff", b"a\xc3", b"x" * MAX_TEXT_BYTES, b"x" * (MAX_TEXT_BYTES + 1)]
IDS = ["a", "b", None, "é" * (MAX_ID_BYTES // 2), "é" * (MAX_ID_BYTES // 2 + 1)]
LATITUDES = [None, float("nan"), 0.0, 90.0, -90.0, 90.1, -90.1, float("inf"), -float("inf"), 1e300]
LONGITUDES = [None, float("nan"), 0.0, 180.0, -180.0, 180.1, -180.1, float("inf"), -float("inf")]
SCHEMA = pa.schema(
    {"id": pa.string(), "text": pa.string(), "lat": pa.float64(), "lon": pa.float64(), CORRUPT_RECORD: pa.string()}
)


def generate_rows() -> list[dict[str, Any]]:
    """Every text, latitude and longitude at least once, and random combinations."""
    chance = random.Random(7)
    short = [text for text in TEXTS if text is None or len(text) < 100]
    rows = [{"id": "a", "text": text, "lat": None, "lon": None, CORRUPT_RECORD: None} for text in TEXTS]
    rows += [{**rows[2], "lat": lat, "lon": 0.0} for lat in LATITUDES]
    rows += [{**rows[2], "lat": 0.0, "lon": lon} for lon in LONGITUDES]
    for _ in range(300):
        rows.append(
            {
                "id": chance.choice(IDS),
                "text": chance.choice(short),
                "lat": chance.choice(LATITUDES),
                "lon": chance.choice(LONGITUDES),
                CORRUPT_RECORD: chance.choice([None, None, None, "{"]),
            }
        )
    return rows


def as_batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """Text may be invalid UTF-8, as in files that Spark reads."""
    binary = pa.array([row["text"] for row in rows], pa.binary())
    text = pa.Array.from_buffers(pa.string(), len(rows), binary.buffers())
    columns = {
        field.name: pa.array([row[field.name] for row in rows], field.type) for field in SCHEMA if field.name != "text"
    }
    return pa.record_batch({**columns, "text": text}).select(SCHEMA.names)


def test_arrow_batches_reject_the_same_rows_as_the_definition():
    rows = generate_rows()
    batch = as_batch(rows)
    not_decodable = Analyzer(Interner()).analyze(batch.column("text")).rejected
    rejected = np.union1d(invalid_rows(batch, read_positions(batch)), not_decodable)
    assert rejected.tolist() == [number for number, row in enumerate(rows) if post_reject_reason(row) is not None]


def test_spark_sql_gives_the_same_reasons_as_the_definition(spark):
    rows = generate_rows()
    values = [tuple(row[name] for name in SCHEMA.names) for row in rows]
    schema = f"id string, text binary, lat double, lon double, {CORRUPT_RECORD} string"
    posts = spark.createDataFrame([(n, *row) for n, row in enumerate(values)], f"number int, {schema}")
    coordinates = [f"nullif({name}, double('nan')) AS {name}" for name in COORDINATE_LIMITS]
    prepared = posts.selectExpr("number", "id", "cast(text AS string) AS text", *coordinates, CORRUPT_RECORD)
    reasons = prepared.selectExpr("number", f"{reject_reason_sql(prepared.columns)} AS reason").collect()
    assert [row.reason for row in sorted(reasons)] == [post_reject_reason(row) for row in rows]


@pytest.mark.parametrize(
    ("post", "reason"),
    [
        ({"id": 1, "text": "cat"}, None),
        ({"id": 1, "text": ""}, None),
        ({"id": 1}, "the text is missing"),
        ({"text": "cat"}, "the id is missing"),
        ({"id": "x" * MAX_ID_BYTES, "text": "cat"}, None),
        ({"id": "é" * 513, "text": "cat"}, "the id is longer than 1,024 bytes"),
        ({"id": 1, "text": "é" * (MAX_TEXT_BYTES // 2 + 1)}, "the text is longer than 1,048,576 bytes"),
        ({"id": 1, "text": b"\xff"}, "the text is not valid UTF-8"),
        ({"id": 1, "text": "\ud800"}, "the text is not valid UTF-8"),
        ({"id": 1, "text": "cat", "lat": 91, "lon": 0}, "lat is not between -90 and 90"),
        ({"id": 1, "text": "cat", "lat": 0, "lon": -181}, "lon is not between -180 and 180"),
        ({"id": 1, "text": "cat", "lat": float("inf"), "lon": 0}, "lat is not a number"),
        ({"id": 1, "text": "cat", CORRUPT_RECORD: "{"}, "the line cannot be read"),
    ],
)
def test_a_post_is_rejected_with_the_first_reason(post, reason):
    assert post_reject_reason(post) == reason


def test_every_reason_of_the_definition_occurs_in_the_generated_rows():
    coordinates = {reason(name) for name in COORDINATE_LIMITS for reason in (not_a_number, out_of_range)}
    others = {
        missing_field("text"),
        too_long("text", MAX_TEXT_BYTES),
        not_utf8("text"),
        missing_field("id"),
        too_long("id", MAX_ID_BYTES),
        UNREADABLE_LINE,
    }
    assert {post_reject_reason(row) for row in generate_rows()} == {*coordinates, *others, None}
