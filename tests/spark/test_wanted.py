"""What a stream stores of a batch is the same by both plans, also of posts that share an id."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidings.index.manifest import PlanRecord
from tidings.index.publish import create_index
from tidings.spark.job import wanted_posts
from tidings.spark.posts import whole
from tidings.spark.ship import reference

QUERIES = ["storm", "sunny", "storm sunny"]
POSTS = [("x", "a storm"), ("x", "a sunny day"), ("y", "sunny storms"), ("x", None), ("z", "nothing")]


@pytest.mark.parametrize("plan", [None, PlanRecord("hash", 3, 2013)], ids=["replicated", "partitioned"])
def test_of_two_posts_with_one_id_each_is_kept_for_those_who_want_it(spark, tmp_path, plan):
    table = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "query": QUERIES})
    index = create_index(tmp_path / "index", table, plan)[0]
    posts = spark.createDataFrame(POSTS, "id string, text string").repartition(3)
    found = wanted_posts(whole(posts), index, reference(index)).toArrow().to_pylist()
    assert sorted((row["id"], row["text"], sorted(row["subscriptions"])) for row in found if not row["reason"]) == [
        ("x", "a storm", [1]),
        ("x", "a sunny day", [2]),
        ("y", "sunny storms", [1, 2, 3]),
    ]
    assert [(row["id"], row["reason"]) for row in found if row["reason"]] == [("x", "no text")]
    assert list(found[0]) == ["id", "text", "reason", "subscriptions"]
