"""A subscription on several matchers is found by each of them and reported once per post."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.matchers import word_plan_fitter

from tidings.index.builder import create_index
from tidings.index.manifest import PlanRecord
from tidings.matching.brute_force import RawPost
from tidings.matching.dedup import MatchDeduplicator, hits_schema
from tidings.routing.router import Router
from tidings.testing.oracles import expected_matches
from tidings.testing.pipeline import match_index, subscription_table

QUERIES = ["cat OR dog OR fish OR bird", "cat", "(rain OR white) house", "within:0,0,9,9 OR cat OR lynx"]
POSTS = [
    RawPost("cat dog fish bird", 3.0, 3.0),
    RawPost("dog"),
    RawPost("cat dog lynx"),
    RawPost("rain white house"),
]


@pytest.fixture
def index(tmp_path):
    index, invalid = create_index(tmp_path / "index", subscription_table(QUERIES), PlanRecord("hash", 8, 1))
    assert not invalid
    assert index.manifest.shared
    return index


def test_without_deduplication_a_match_on_two_matchers_is_reported_twice(index):
    duplicated = match_index(index, POSTS, 10, deduplicate=False)
    assert sorted(set(duplicated)) == expected_matches(QUERIES, POSTS)
    assert len(duplicated) > len(set(duplicated)), "deduplication would not be needed"
    assert duplicated.count((0, 0)) > 1


def test_with_deduplication_it_is_reported_once(index):
    assert match_index(index, POSTS, 10) == expected_matches(QUERIES, POSTS)


def test_posts_with_the_same_text_stay_several_posts(index):
    assert match_index(index, POSTS * 3, 100) == expected_matches(QUERIES, POSTS * 3)


def test_subscriptions_with_one_conjunction_need_no_deduplication(tmp_path):
    index, _ = create_index(
        tmp_path / "index", subscription_table(["cat dog", "fish", "cat", "within:0,0,9,9"]), PlanRecord("hash", 8, 1)
    )
    assert not index.manifest.shared


hits = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.booleans()), max_size=8)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.integers(0, 3), st.lists(hits, min_size=1, max_size=4)), st.randoms(use_true_random=False))
def test_hits_may_arrive_in_any_order(batches, chance):
    """Each batch is a list of replies, each a list of (post, subscription, shared)."""
    schema = hits_schema(pa.int64(), pa.string())
    distinct = {batch: [set(reply) for reply in replies] for batch, replies in batches.items()}
    arriving = [(batch, len(replies), reply) for batch, replies in distinct.items() for reply in replies]
    chance.shuffle(arriving)
    deduplicator, unique = MatchDeduplicator(), []
    for batch, matchers, reply in arriving:
        rows = [
            {"post": post, "post_id": f"p{post}", "subscription_id": subscription, "shared": shared}
            for post, subscription, shared in reply
        ]
        for table in deduplicator.add(batch, matchers, pa.RecordBatch.from_pylist(rows, schema)):
            unique += [(batch, row["post"], row["post_id"], row["subscription_id"]) for row in table.to_pylist()]
    assert not list(deduplicator.flush()), "all matchers have replied"
    alone = [(b, p, f"p{p}", s) for b, replies in distinct.items() for a in replies for p, s, shared in a if not shared]
    several = {(b, p, f"p{p}", s) for b, replies in distinct.items() for a in replies for p, s, shared in a if shared}
    assert sorted(unique) == sorted([*alone, *several])


def test_waiting_matches_are_flushed_if_hits_are_missing():
    schema = hits_schema(pa.int64(), pa.int64())
    row = {"post": 0, "post_id": 1, "subscription_id": 2, "shared": True}
    deduplicator = MatchDeduplicator()
    early = [len(table) for table in deduplicator.add(7, 3, pa.RecordBatch.from_pylist([row, row], schema))]
    assert sum(early) == 0
    assert [table.num_rows for table in deduplicator.flush()] == [1]


def test_a_subscription_to_hot_terms_is_on_every_split_and_reported_once(tmp_path):
    """Every post has `rain`, so it has several splits; other words route each post to further matchers."""
    others = [f"w{number}" for number in range(30)]
    posts = [RawPost(f"rain {others[n % 30]} {others[(7 * n + 3) % 30]}") for n in range(200)]
    queries = ["rain", "rain w3", *others]
    fit = word_plan_fitter("salb+", posts, 8)
    index, _ = create_index(tmp_path / "index", subscription_table(queries), PlanRecord("salb+", 8, 1), fit)
    subscribers = [n for n in range(8) for view in index.open_shard(n) if 0 in view.segment.ids.to_pylist()]
    assert len(subscribers) > 2
    assert index.manifest.shared
    one_word = [n for n in range(8) for view in index.open_shard(n) if 1 in view.segment.ids.to_pylist()]
    assert len(one_word) == 1, "a term that is not hot decides its matcher"
    duplicated = match_index(index, posts, 50, deduplicate=False)
    assert len(duplicated) > len(set(duplicated)), "deduplication would not be needed"
    assert match_index(index, posts, 50) == expected_matches(queries, posts)


def test_a_hot_term_routes_each_post_to_one_of_its_splits(tmp_path):
    posts = [RawPost(f"rain unseen{n}") for n in range(400)]
    sample = [RawPost(f"rain w{n % 40}") for n in range(200)]
    index, _ = create_index(
        tmp_path / "index",
        subscription_table(["rain"]),
        PlanRecord("salb+", 8, 1),
        word_plan_fitter("salb+", sample, 8),
    )
    batch = index.analyzer().analyze(pa.array([post.text for post in posts]))
    routed = Router(index).route(batch, np.full((len(posts), 2), np.nan)).batches
    loads = [len(part.posts) for part in routed]
    assert sum(loads) == len(posts)
    assert len(loads) > 2
    assert max(loads) < 0.5 * len(posts)
