"""A worker reuses the open segments of earlier index versions; the matches are those of a fresh worker."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidings.index.builder import apply_changes, create_index, merge_index
from tidings.index.manifest import PlanRecord
from tidings.index.reader import Index, SegmentView
from tidings.matching.brute_force import RawPost
from tidings.matching.segment_matcher import SegmentMatcher
from tidings.spark import worker_state
from tidings.spark.worker_state import IndexRef, LoadedIndex
from tidings.testing.pipeline import match_index, post_positions, subscription_table

QUERIES = ["cat", "cat dog -fish", '"white house"', "within:0,0,9,9", "cat OR dog OR fish", "storm within:0,0,9,9"]
POSTS = [
    RawPost("cats and dogs"),
    RawPost("a white house"),
    RawPost("lynx in a storm", 3.0, 3.0),
    RawPost("zebra fish owl"),
    RawPost("owl zebra zebra"),
]
both_plans = pytest.mark.parametrize("plan", [None, PlanRecord("hash", 3, 7)], ids=["replicated", "partitioned"])


@pytest.fixture(autouse=True)
def _new_worker(monkeypatch):
    monkeypatch.setattr(worker_state, "_SEGMENTS", worker_state._SegmentCache())


def load(index: Index) -> LoadedIndex:
    return LoadedIndex(IndexRef(str(index.folder), index.version))


def match(loaded: LoadedIndex) -> list[tuple[int, int]]:
    """Return the matches of all shards; every shard gets all posts."""
    analyzed = loaded.analyzer.analyze(pa.array([post.text for post in POSTS]))
    found = set()
    for shard in range(len(loaded.index.manifest.shards)):
        for hits in loaded.match(shard, analyzed, post_positions(POSTS)):
            found.update(zip(hits.ids.to_pylist(), hits.posts.to_pylist(), strict=True))
    return sorted(found)


def change(index: Index, step: int) -> Index:
    """Return another version: with new terms, without some subscriptions, merged now and then."""
    added = subscription_table([f"zebra OR new{step}", "owl zebra"], [100 + step, step % 3])
    changed, _ = apply_changes(index, added if step % 2 else None, pa.array([99 + step, 4 - step], pa.int64()))
    return merge_index(changed) if step == 3 else changed


@both_plans
def test_every_version_matches_as_in_a_fresh_worker(tmp_path, plan):
    versions = [create_index(tmp_path / "index", subscription_table(QUERIES), plan)[0]]
    for step in range(6):
        versions.append(change(versions[-1], step))
    expected = [match_index(index, POSTS, 9) for index in versions]
    assert len(set(map(tuple, expected))) > 4
    opened = [load(index) for index in versions]
    for order in (range(7), reversed(range(7)), (2, 6, 0, 4)):  # replayed batches use earlier versions
        for number in order:
            assert match(opened[number]) == expected[number]
            assert match(load(versions[number])) == expected[number]


def first_segment(loaded: LoadedIndex) -> tuple[SegmentView, SegmentMatcher]:
    view, matcher = loaded._matchers_of(0)[0]
    assert isinstance(matcher, SegmentMatcher)
    return view, matcher


def test_a_delta_does_not_open_the_base_again(tmp_path):
    first, _ = create_index(tmp_path / "index", subscription_table(QUERIES))
    second, _ = apply_changes(first, subscription_table(["new words"], [7]))
    third, _ = apply_changes(second, None, pa.array([0], pa.int64()))
    bases = []
    for index in (first, second, third):
        loaded = load(index)
        match(loaded)
        bases.append(first_segment(loaded))
    assert bases[0][0].segment is bases[1][0].segment is bases[2][0].segment
    assert bases[0][1]._cell_table is bases[2][1]._cell_table
    assert bases[0][1]._reporters is bases[1][1]._reporters, "nothing was removed"
    assert np.count_nonzero(bases[2][0].removed) == 1


def test_segments_that_are_no_longer_used_are_closed(tmp_path):
    index, _ = create_index(tmp_path / "index", subscription_table(QUERIES))
    match(load(index))
    assert len(worker_state._SEGMENTS._open) == 1
    merged = merge_index(apply_changes(index, subscription_table(["new"], [7]))[0])
    for _ in range(3):
        match(load(merged))
    assert len(worker_state._SEGMENTS._open) == 1


def test_equal_segments_of_two_indexes_are_opened_once(tmp_path):
    indexes = [create_index(tmp_path / name, subscription_table(QUERIES))[0] for name in ("a", "b")]
    matchers = []
    for index in indexes:
        loaded = load(index)
        assert match(loaded) == match_index(index, POSTS, 9)
        matchers.append(first_segment(loaded)[1])
    assert matchers[0]._cell_table is matchers[1]._cell_table
