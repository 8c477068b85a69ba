"""A subscription on several matchers is found by each of them and reported once per post."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.matchers import word_plan_fitter

from tidings.balance.spatial_registry import fit_spatial_plan
from tidings.index.builder import create_index
from tidings.index.manifest import PlanRecord
from tidings.matching.brute_force import RawPost
from tidings.matching.dedup import drop_repeated, group_by_post, hits_schema, merge_hits
from tidings.routing.router import Router
from tidings.testing.contract import build_post_workload, town_workload
from tidings.testing.oracles import expected_matches
from tidings.testing.pipeline import match_index, segment_ids, subscription_table

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


def test_alternatives_without_terms_on_several_matchers_are_found_once(tmp_path):
    queries = ["within:-180,-90,180,90 -(cat dog)"]  # without cat, or without dog
    posts = [RawPost("", -90.0, -180.0), RawPost("cat", 1.0, 1.0)]
    index, _ = create_index(tmp_path / "index", subscription_table(queries), PlanRecord("hash", 3, 2))
    assert sum(len(index.open_shard(number)) for number in range(3)) > 1, "all alternatives are on one matcher"
    assert match_index(index, posts, 10) == expected_matches(queries, posts)


def test_posts_with_the_same_text_stay_several_posts(index):
    assert match_index(index, POSTS * 3, 100) == expected_matches(QUERIES, POSTS * 3)


def test_subscriptions_with_one_conjunction_need_no_deduplication(tmp_path):
    index, _ = create_index(
        tmp_path / "index", subscription_table(["cat dog", "fish", "cat", "within:0,0,9,9"]), PlanRecord("hash", 8, 1)
    )
    assert not index.manifest.shared


hits = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.booleans()), max_size=30)
replies = st.lists(hits.map(lambda reply: sorted(set(reply))), max_size=4)


@settings(max_examples=150, deadline=None)
@given(replies, st.sampled_from([pa.int64(), pa.string(), pa.decimal128(38, 2)]))
def test_only_repeated_shared_hits_are_dropped(replies, id_type):
    """Each reply has the hits of one matcher: (post, subscription, shared)."""
    schema = hits_schema(id_type)
    batches = []
    for reply in replies:
        columns = [pa.array(column) for column in zip(*reply, strict=True)] if reply else [pa.nulls(0)] * 3
        columns = [column.cast(kind) for column, kind in zip(columns, schema.types, strict=True)]
        batches.append(pa.record_batch(columns, schema=schema))
    given = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    expected = [hit for hit in given if not hit[2]] + list({hit for hit in given if hit[2]})
    unique = [tuple(row[name] for name in schema.names) for row in drop_repeated(batches).to_pylist()]
    assert sorted(unique, key=str) == sorted(expected, key=str)
    ids, counts = merge_hits(batches, 5)
    assert counts.tolist() == [sum(hit[0] == post for hit in expected) for post in range(5)]
    by_post = np.split(np.array(ids.to_pylist(), object), np.cumsum(counts)[:-1])
    assert [sorted(map(str, some)) for some in by_post] == [
        sorted(str(hit[1]) for hit in expected if hit[0] == post) for post in range(5)
    ]


@given(hits)
def test_ids_are_grouped_by_post_and_keep_their_order(hits):
    posts, ids = np.array([hit[0] for hit in hits], np.uint32), pa.array([hit[1] for hit in hits], pa.int64())
    grouped, counts = group_by_post(posts, ids, 7)
    assert counts.tolist() == [int((posts == post).sum()) for post in range(7)]
    assert grouped.to_pylist() == [one for post in range(7) for other, one, _ in hits if other == post]


def test_a_subscription_to_hot_terms_is_on_every_split_and_found_once(tmp_path):
    """Every post has `rain`, so it has several splits; other words route each post to further matchers."""
    others = [f"w{number}" for number in range(30)]
    posts = [RawPost(f"rain {others[n % 30]} {others[(7 * n + 3) % 30]}") for n in range(200)]
    queries = ["rain", "rain w3", *others]
    fit = word_plan_fitter("salb+", posts, 8)
    index, _ = create_index(tmp_path / "index", subscription_table(queries), PlanRecord("salb+", 8, 1), fit)
    subscribers = [n for n in range(8) for view in index.open_shard(n) if 0 in view.segment.ids.to_pylist()]
    assert len(subscribers) > 2
    assert not index.manifest.shared, "its hits would go through deduplication"
    one_word = [n for n in range(8) for view in index.open_shard(n) if 1 in view.segment.ids.to_pylist()]
    assert len(one_word) == 1, "a term that is not hot decides its matcher"
    assert match_index(index, posts, 50, deduplicate=False) == expected_matches(queries, posts)


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


@pytest.mark.parametrize("name", ["kdt", "hybrid"])
def test_a_copy_of_a_spatial_subscription_on_another_matcher_does_not_find_it_again(name, tmp_path):
    queries, posts = town_workload()
    queries += [f"w{number}" for number in range(40)]  # on all matchers that are responsible for the word in any area
    plan = fit_spatial_plan(name, build_post_workload(queries, posts), 4)
    assert any(area.is_shared for area in plan.areas), "every post would be routed to one matcher"
    index, _ = create_index(tmp_path / "index", subscription_table(queries), PlanRecord(name, 4, 1), lambda *_: plan)
    ids = [number for shard in range(4) for view in index.open_shard(shard) for number in segment_ids(view)]
    assert len(ids) > len(set(ids)), "no subscription is on several matchers"
    assert not index.manifest.shared
    assert match_index(index, posts, 50, deduplicate=False) == expected_matches(queries, posts)
