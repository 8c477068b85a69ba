"""Shedding drops the matchers where a post is worth least, and counts each of them."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import InputError
from tidings.index.builder import create_index
from tidings.index.manifest import PlanRecord
from tidings.routing.anchor_holders import AnchorHolders
from tidings.routing.router import Router
from tidings.routing.shed import ShedDecision, shed_posts
from tidings.testing.pipeline import subscription_table

MATCHERS = 5
anchor_lists = st.lists(st.lists(st.integers(1, 9), max_size=6, unique=True), max_size=12)


def by_definition(post, holders, copied, worth, reached, limit):
    """Return the matchers, of those that a post reaches, with the highest worth of its anchors; ties: the lower number.

    An anchor is worth its conjunctions at each holder. All holders of a copied anchor have the same ones: it counts
    where the others count most.
    """
    score = dict.fromkeys(reached, 0)
    for anchor in [anchor for anchor in post if anchor not in copied]:
        for matcher, count in holders[anchor].items():
            if matcher in reached:
                score[matcher] += worth[anchor] * count
    for anchor in [anchor for anchor in post if anchor in copied]:
        matcher = min(holders[anchor].keys() & reached, key=lambda matcher: (-score[matcher], matcher))
        score[matcher] += worth[anchor] * holders[anchor][matcher]
    return set(sorted(score, key=lambda matcher: (-score[matcher], matcher))[:limit])


def arrays(posts, holders, copied=()):
    """Return posts as the router writes them: active anchors followed by a 0, bounds, holders of anchors, bits."""
    active = np.array([term for post in posts for term in (*post, 0)], np.uint32)
    ends = np.cumsum([len(post) + 1 for post in posts]) if posts else np.zeros(0, int)
    bounds = np.column_stack([np.concatenate([[0], ends[:-1]]) if posts else ends, ends]).astype(np.uint32)
    rows = [(matcher, anchor, count) for anchor, counts in holders.items() for matcher, count in counts.items()]
    segments = [
        (matcher, np.array([anchor], np.uint32), np.array([count], np.uint32)) for matcher, anchor, count in rows
    ]
    is_split = np.array([anchor in copied for anchor in range(10)], np.uint8)
    reached = [
        {matcher for anchor in post for matcher in list(holders[anchor])[: 1 if anchor in copied else None]}
        for post in posts
    ]
    bits = np.array([[sum(1 << matcher for matcher in matchers)] for matchers in reached], np.uint64).reshape(-1, 1)
    return active, bounds, AnchorHolders.of(segments, is_split), bits, reached


def matchers_of(row) -> set[int]:
    return {matcher for matcher in range(64) if int(row) >> matcher & 1}


counts_of_matchers = st.dictionaries(st.integers(0, MATCHERS - 1), st.integers(1, 5), min_size=1, max_size=3)


@settings(max_examples=150, deadline=None)
@given(
    anchor_lists,
    st.lists(counts_of_matchers, min_size=9, max_size=9),
    st.sets(st.integers(1, 9), max_size=3),
    st.lists(st.integers(1, 5), min_size=10, max_size=10),
    st.integers(1, 4),
)
def test_a_post_goes_to_the_matchers_where_it_is_worth_most(posts, counts, copied, worth, limit):
    holders = {
        anchor: dict.fromkeys(matchers, 2) if anchor in copied else matchers
        for anchor, matchers in enumerate(counts, 1)
    }
    active, bounds, table, bits, reached = arrays(posts, holders, copied)
    allowed = np.full(len(posts), limit, np.uint16)
    shed = shed_posts(allowed, active, bounds, table, np.array(worth, np.uint64)[active], bits)
    kept = [
        by_definition(post, holders, copied, worth, matchers, limit)
        for post, matchers in zip(posts, reached, strict=True)
    ]
    assert [matchers_of(row) for row in bits[:, 0]] == kept
    dropped = [matchers - left for matchers, left in zip(reached, kept, strict=True)]
    assert shed.by_matcher[:MATCHERS].tolist() == [sum(m in lost for lost in dropped) for m in range(MATCHERS)]
    expected = Counter()
    for post, left, lost in zip(posts, kept, dropped, strict=True):
        for anchor in post:
            missed = sorted(holders[anchor].keys() & lost)
            if anchor in copied:
                missed = missed[:1] if not holders[anchor].keys() & left else []
            expected.update((anchor << 16 | matcher) for matcher in missed)
    assert dict(zip(*map(np.ndarray.tolist, shed.by_anchor()), strict=True)) == expected


def hash_of(rows: int) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 1 << 63, rows, dtype=np.uint64)


def test_a_fractional_limit_is_the_chance_of_one_more_matcher():
    allowed = ShedDecision("consensus", 1.25).allowed_matchers(hash_of(4000))
    assert set(allowed.tolist()) == {1, 2}
    assert allowed.mean() == pytest.approx(1.25, abs=0.03)


def test_random_shedding_drops_whole_posts():
    active, bounds, holders, bits, _ = arrays([[1, 2, 3]] * 4000, {1: {0: 1}, 2: {1: 1}, 3: {2: 1}})
    allowed = ShedDecision("random", 0.7).allowed_matchers(hash_of(4000))
    counts = shed_posts(allowed, active, bounds, holders, np.ones(len(active), np.uint64), bits)
    sent = bits[:, 0] != 0
    assert set(bits[:, 0].tolist()) == {0, 0b111}
    assert sent.mean() == pytest.approx(0.7, abs=0.03)
    assert counts.total == 3 * int((~sent).sum())


@pytest.mark.parametrize(("policy", "limit"), [("consensus", 1.5), ("random", 0.5)])
def test_what_is_shed_depends_on_the_post_and_the_seed_not_on_the_row(policy, limit):
    hashes = hash_of(1000)
    decision = ShedDecision(policy, limit, 3)
    together = decision.allowed_matchers(hashes)
    assert [int(decision.allowed_matchers(hashes[n : n + 1])[0]) for n in range(1000)] == together.tolist()
    assert (ShedDecision(policy, limit, 4).allowed_matchers(hashes) != together).any()


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
