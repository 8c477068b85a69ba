"""A stream stores the same rows in both modes, even if posts share an id."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidings.index.builder import create_index
from tidings.index.manifest import PlanRecord
from tidings.spark.index_shipping import shared_path_ref
from tidings.spark.pipeline import matched_posts
from tidings.spark.post_columns import select_all_fields
from tidings.stream.commit_queue import collect_matches, split_chunk

QUERIES = ["storm", "sunny", "storm sunny", "storm OR sunny OR night"]
POSTS = [("x", "a storm"), ("x", "a sunny day"), ("y", "sunny storms"), ("x", None), ("z", "nothing")]


@pytest.fixture(params=[None, PlanRecord("hash", 5, 2013)], ids=["replicated", "partitioned"])
def index(request, tmp_path):
    table = pa.table({"id": pa.array([1, 2, 3, 4], pa.int64()), "query": QUERIES})
    index = create_index(tmp_path / "index", table, request.param)[0]
    assert index.manifest.plan is None or index.manifest.shared, "two matchers have the last query"
    return index


def test_posts_that_share_an_id_keep_their_own_subscriptions(spark, index):
    posts = spark.createDataFrame(POSTS, "id string, text string").repartition(3)
    found = matched_posts(select_all_fields(posts), index, shared_path_ref(index)).toArrow().to_pylist()
    assert sorted((row["id"], row["text"], sorted(row["subscriptions"])) for row in found if not row["reason"]) == [
        ("x", "a storm", [1, 4]),
        ("x", "a sunny day", [2, 4]),
        ("y", "sunny storms", [1, 2, 3, 4]),
    ]
    assert [(row["id"], row["reason"]) for row in found if row["reason"]] == [("x", "the text is missing")]
    assert list(found[0]) == ["id", "text", "reason", "subscriptions"]


@pytest.mark.parametrize("posts", [[], [("x", None)] * 3, [("x", "nothing"), ("y", None)], POSTS * 40])
def test_spill_files_have_the_rows_that_are_returned_without_a_folder(spark, index, tmp_path, posts):
    frame = select_all_fields(spark.createDataFrame(posts, "id string, text string").repartition(3))
    rows = split_chunk(matched_posts(frame, index, shared_path_ref(index)).toArrow())
    spilled = collect_matches(
        matched_posts(frame, index, shared_path_ref(index), folder=tmp_path / "s"), tmp_path / "s"
    )
    written = [split_chunk(table) for table in spilled.tables()]
    assert spilled.rejected == len(rows.rejected) == sum(text is None for _, text in posts)
    found = sorted(match for chunk in written for match in _pairs(chunk))
    assert found == sorted(_pairs(rows))


def _pairs(chunk):
    texts, subscriptions = chunk.posts["text"].to_pylist(), chunk.matches["subscription"].to_pylist()
    return [(texts[row], s) for row, s in zip(chunk.matches["post_row"].to_pylist(), subscriptions, strict=True)]


def test_invalid_utf8_text_is_rejected_and_the_batch_continues(spark, index):
    rows = [("x", b"a storm"), ("y", b"storm \xff\xfe"), ("z", b"\xe2\x82")]
    posts = spark.createDataFrame(rows, "id string, text binary")
    found = split_chunk(matched_posts(select_all_fields(posts), index, shared_path_ref(index)).toArrow())
    assert found.posts["text"].to_pylist() == ["a storm"]
    assert sorted(found.matches["subscription"].to_pylist()) == [1, 4]
    assert found.rejected["reason"].to_pylist() == ["the text is not valid UTF-8"] * 2
    assert sorted(found.rejected["excerpt"].to_pylist()) == ["storm \ufffd\ufffd", "\ufffd"]
