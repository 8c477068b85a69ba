"""Shedding drops the matchers where a post is worth least, and counts each of them."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import InputError
from tidings.index.builder import create_index
from tidings.index.manifest import PlanRecord
from tidings.routing.router import Router
from tidings.routing.shed import ShedDecision, shed_posts
from tidings.testing.pipeline import subscription_table

MATCHERS = 5
anchor_lists = st.lists(st.lists(st.integers(1, 9), max_size=6, unique=True), max_size=12)


def by_definition(posts, matcher_of, worth, limit):
    """Return per post the matchers with the highest worth of its anchors, up to the limit; ties: the lower number."""
    kept = []
    for post in posts:
        score = {}
        for anchor in post:
            score[matcher_of[anchor]] = score.get(matcher_of[anchor], 0) + worth[anchor]
        kept.append(set(sorted(score, key=lambda matcher: (-score[matcher], matcher))[:limit]))
    return kept


def arrays(posts, matcher_of):
    """Return posts as the router writes them: active anchors followed by a 0, bounds, matchers of anchors, bits."""
    active = np.array([term for post in posts for term in (*post, 0)], np.uint32)
    ends = np.cumsum([len(post) + 1 for post in posts]) if posts else np.zeros(0, int)
    bounds = np.column_stack([np.concatenate([[0], ends[:-1]]) if posts else ends, ends]).astype(np.uint32)
    of_term = np.zeros((10, 1), np.uint64)
    of_term[1:, 0] = [1 << matcher for matcher in matcher_of[1:]]
    bits = np.array([[np.bitwise_or.reduce(of_term[post, 0], initial=0)] for post in posts], np.uint64).reshape(-1, 1)
    return active, bounds, of_term, bits


@settings(max_examples=150, deadline=None)
@given(
    anchor_lists,
    st.lists(st.integers(0, MATCHERS - 1), min_size=10, max_size=10),
    st.lists(st.integers(1, 5), min_size=10, max_size=10),
    st.integers(1, 4),
)
def test_a_post_goes_to_the_matchers_where_it_is_worth_most(posts, matcher_of, worth, limit):
    active, bounds, of_term, bits = arrays(posts, matcher_of)
    before = bits.copy()
    shed = ShedDecision("subscription", float(limit))
    counts = shed_posts(shed, active, bounds, of_term, np.array(worth, np.uint64)[active], bits)
    kept = by_definition(posts, matcher_of, worth, limit)
    assert [{m for m in range(64) if int(row[0]) >> m & 1} for row in bits] == kept
    dropped = [{m for m in range(64) if int(row[0]) >> m & 1} - left for row, left in zip(before, kept, strict=True)]
    assert counts.by_matcher[:MATCHERS].tolist() == [sum(m in lost for lost in dropped) for m in range(MATCHERS)]
    by_anchor = [
        sum(anchor in post and matcher_of[anchor] in lost for post, lost in zip(posts, dropped, strict=True))
        for anchor in range(10)
    ]
    assert counts.by_anchor.tolist() == by_anchor


def test_a_fractional_limit_is_the_chance_of_one_more_matcher():
    posts = [[1, 2, 3]] * 4000
    active, bounds, of_term, bits = arrays(posts, [0, 0, 1, 2, 0, 0, 0, 0, 0, 0])
    shed_posts(ShedDecision("consensus", 1.25), active, bounds, of_term, np.ones(len(active), np.uint64), bits)
    sent = np.array([bin(int(row)).count("1") for row in bits[:, 0]])
    assert set(sent.tolist()) == {1, 2}
    assert sent.mean() == pytest.approx(1.25, abs=0.03)


def test_random_shedding_drops_whole_posts():
    posts = [[1, 2, 3]] * 4000
    active, bounds, of_term, bits = arrays(posts, [0, 0, 1, 2, 0, 0, 0, 0, 0, 0])
    counts = shed_posts(ShedDecision("random", 0.7), active, bounds, of_term, np.ones(len(active), np.uint64), bits)
    sent = bits[:, 0] != 0
    assert set(bits[:, 0].tolist()) == {0, 0b111}
    assert sent.mean() == pytest.approx(0.7, abs=0.03)
    assert counts.total == 3 * int((~sent).sum())


def test_an_unknown_policy_is_an_error_that_lists_the_known_ones():
    with pytest.raises(InputError, match="Choose one of: off, consensus, subscription, random"):
        ShedDecision("sleep")


@pytest.fixture
def router(tmp_path) -> Router:
    words = [f"w{number}" for number in range(12)]
    queries = [*words, *["w1 w2"] * 40, *itertools.repeat("w3", 30)]
    index, _ = create_index(tmp_path / "index", subscription_table(queries), PlanRecord("hash", 8, 7))
    router = Router(index)
    router.analyze = index.analyzer().analyze  # type: ignore[attr-defined]
    return router


@pytest.mark.parametrize("policy", ["off", "consensus", "subscription", "random"])
def test_without_a_limit_everything_is_sent(router, policy):
    batch = router.analyze(pa.array(["w1 w2 w3 w4 w5 w6 w7 w8"] * 20))
    nowhere = np.full((20, 2), np.nan)
    all_posts = router.route(batch, nowhere)
    unlimited = router.route(batch, nowhere, ShedDecision(policy))
    assert unlimited.shed is None
    assert [(a.matcher, a.posts.tolist()) for a in all_posts.batches] == [
        (b.matcher, b.posts.tolist()) for b in unlimited.batches
    ]


@pytest.mark.parametrize("policy", ["consensus", "subscription"])
def test_sent_and_shed_posts_add_up(router, policy):
    texts = [" ".join(f"w{(n * k) % 12}" for k in range(1, 6)) for n in range(100)]
    batch, nowhere = router.analyze(pa.array(texts)), np.full((100, 2), np.nan)
    all_posts, limited = router.route(batch, nowhere), router.route(batch, nowhere, ShedDecision(policy, 2.0))
    sent = {part.matcher: len(part.posts) for part in limited.batches}
    for part in all_posts.batches:
        assert len(part.posts) == sent.get(part.matcher, 0) + limited.shed.by_matcher[part.matcher]
    assert limited.shed.total > 0
    targets = np.bincount(np.concatenate([part.posts for part in limited.batches]), minlength=100)
    assert targets.max() <= 2
