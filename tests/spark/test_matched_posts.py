"""What a stream stores of a batch is the same by both plans, also of posts that share an id."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidings.index.builder import create_index
from tidings.index.manifest import PlanRecord
from tidings.spark.index_shipping import reference
from tidings.spark.pipeline import wanted_posts
from tidings.spark.post_columns import whole
from tidings.stream.spill import parted

QUERIES = ["storm", "sunny", "storm sunny"]
POSTS = [("x", "a storm"), ("x", "a sunny day"), ("y", "sunny storms"), ("x", None), ("z", "nothing")]


@pytest.fixture(params=[None, PlanRecord("hash", 3, 2013)], ids=["replicated", "partitioned"])
def index(request, tmp_path):
    table = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "query": QUERIES})
    return create_index(tmp_path / "index", table, request.param)[0]


def test_of_two_posts_with_one_id_each_is_kept_for_those_who_want_it(spark, index):
    posts = spark.createDataFrame(POSTS, "id string, text string").repartition(3)
    found = wanted_posts(whole(posts), index, reference(index)).toArrow().to_pylist()
    assert sorted((row["id"], row["text"], sorted(row["subscriptions"])) for row in found if not row["reason"]) == [
        ("x", "a storm", [1]),
        ("x", "a sunny day", [2]),
        ("y", "sunny storms", [1, 2, 3]),
    ]
    assert [(row["id"], row["reason"]) for row in found if row["reason"]] == [("x", "no text")]
    assert list(found[0]) == ["id", "text", "reason", "subscriptions"]


def test_a_text_that_is_not_utf8_is_set_aside_and_the_stream_goes_on(spark, index):
    rows = [("x", b"a storm"), ("y", b"storm \xff\xfe"), ("z", b"\xe2\x82")]
    posts = spark.createDataFrame(rows, "id string, text binary")
    found = parted(wanted_posts(whole(posts), index, reference(index)).toArrow())
    assert found.posts["text"].to_pylist() == ["a storm"]
    assert found.matches["subscription"].to_pylist() == [1]
    assert found.rejected["reason"].to_pylist() == ["text is not valid UTF-8"] * 2
    assert sorted(found.rejected["excerpt"].to_pylist()) == ["storm \ufffd\ufffd", "\ufffd"]
