"""A subscription on several matchers is found by each of them, and reported once a post."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.matchers import expected, learner, match_index, table

from tidings.index.builder import create_index
from tidings.index.manifest import PlanRecord
from tidings.matching.brute_force import ScanPost
from tidings.matching.dedup import Merger, hits_schema
from tidings.routing.router import Router

QUERIES = ["cat OR dog OR fish OR bird", "cat", "(rain OR white) house", "within:0,0,9,9 OR cat OR lynx"]
POSTS = [
    ScanPost("cat dog fish bird", 3.0, 3.0),
    ScanPost("dog"),
    ScanPost("cat dog lynx"),
    ScanPost("rain white house"),
]


@pytest.fixture
def index(tmp_path):
    index, refused = create_index(tmp_path / "index", table(QUERIES), PlanRecord("hash", 8, 1))
    assert not refused
    assert index.manifest.shared
    return index


def test_without_the_merge_a_post_that_meets_a_subscription_on_two_matchers_is_reported_twice(index):
    unmerged = match_index(index, POSTS, 10, merge=False)
    assert sorted(set(unmerged)) == expected(QUERIES, POSTS)
    assert len(unmerged) > len(set(unmerged)), "the merge would not be needed"
    assert unmerged.count((0, 0)) > 1


def test_with_the_merge_it_is_reported_once(index):
    assert match_index(index, POSTS, 10) == expected(QUERIES, POSTS)


def test_posts_of_the_same_text_stay_several_posts(index):
    assert match_index(index, POSTS * 3, 100) == expected(QUERIES, POSTS * 3)


def test_subscriptions_of_one_conjunction_need_no_merge(tmp_path):
    index, _ = create_index(
        tmp_path / "index", table(["cat dog", "fish", "cat", "within:0,0,9,9"]), PlanRecord("hash", 8, 1)
    )
    assert not index.manifest.shared


hits = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.booleans()), max_size=8)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.integers(0, 3), st.lists(hits, min_size=1, max_size=4)), st.randoms(use_true_random=False))
def test_answers_may_come_in_any_order(batches, chance):
    """Each batch is a list of answers, each a list of (post, subscription, shared)."""
    schema = hits_schema(pa.int64(), pa.string())
    marked = {batch: [_once(answer) for answer in answers] for batch, answers in batches.items()}
    arriving = [(batch, len(answers), answer) for batch, answers in marked.items() for answer in answers]
    chance.shuffle(arriving)
    merger, merged = Merger(), []
    for batch, matchers, answer in arriving:
        rows = [
            {"post": post, "post_id": f"p{post}", "subscription_id": subscription, "shared": shared}
            for post, subscription, shared in answer
        ]
        for found in merger.take(batch, matchers, pa.RecordBatch.from_pylist(rows, schema)):
            merged += [(batch, row["post"], row["post_id"], row["subscription_id"]) for row in found.to_pylist()]
    assert not list(merger.rest()), "every batch was answered by all"
    alone = [(b, p, f"p{p}", s) for b, answers in marked.items() for a in answers for p, s, shared in a if not shared]
    several = {(b, p, f"p{p}", s) for b, answers in marked.items() for a in answers for p, s, shared in a if shared}
    assert sorted(merged) == sorted([*alone, *several])


def _once(answer: list[tuple[int, int, bool]]) -> set[tuple[int, int, bool]]:
    return set(answer)


def test_what_waits_is_not_lost_when_answers_stay_out():
    schema = hits_schema(pa.int64(), pa.int64())
    row = {"post": 0, "post_id": 1, "subscription_id": 2, "shared": True}
    merger = Merger()
    early = [len(found) for found in merger.take(7, 3, pa.RecordBatch.from_pylist([row, row], schema))]
    assert sum(early) == 0
    assert [found.num_rows for found in merger.rest()] == [1]


def test_a_subscription_of_hot_words_is_held_by_every_version_and_reported_once(tmp_path):
    """Every post says rain, so that has several versions; each post brings words that lead it to other matchers too."""
    others = [f"w{number}" for number in range(30)]
    posts = [ScanPost(f"rain {others[n % 30]} {others[(7 * n + 3) % 30]}") for n in range(200)]
    queries = ["rain", "rain w3", *others]
    learn = learner("salb+", posts, 8)
    index, _ = create_index(tmp_path / "index", table(queries), PlanRecord("salb+", 8, 1), learn)
    holders = [n for n in range(8) for live in index.shard(n) if 0 in live.segment.ids.to_pylist()]
    assert len(holders) > 2
    assert index.manifest.shared
    one_word = [n for n in range(8) for live in index.shard(n) if 1 in live.segment.ids.to_pylist()]
    assert len(one_word) == 1, "a regular word decides where it goes"
    unmerged = match_index(index, posts, 50, merge=False)
    assert len(unmerged) > len(set(unmerged)), "the merge would not be needed"
    assert match_index(index, posts, 50) == expected(queries, posts)


def test_a_hot_word_leads_each_post_to_one_of_its_matchers(tmp_path):
    posts = [ScanPost("rain") for _ in range(400)]
    said = [ScanPost(f"rain w{n % 40}") for n in range(200)]
    index, _ = create_index(tmp_path / "index", table(["rain"]), PlanRecord("salb+", 8, 1), learner("salb+", said, 8))
    received = index.receiver().receive(pa.array([post.text for post in posts]))
    shares = Router(index).route(received, np.full((len(posts), 2), np.nan)).shares
    loads = [len(share.posts) for share in shares]
    assert sum(loads) == len(posts)
    assert len(loads) > 2
    assert max(loads) < 0.5 * len(posts)
