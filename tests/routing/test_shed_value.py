"""What a lead is worth to a post: its conjunctions, in the share of their companions that the post says."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.index.builder import create_index
from tidings.index.manifest import PlanRecord
from tidings.query import anchors
from tidings.routing.router import Router
from tidings.routing.shed import Shed
from tidings.routing.shed_value import UNIT, within_reach

TERMS = 40


def bit(term: int) -> int:
    """The place of a term in a signature, by its definition: the upper eight bits of its product."""
    return term * 0x9E3779B97F4A7C15 % (1 << 64) >> 56


def signature(terms) -> np.ndarray:
    found = np.zeros(anchors.WORDS, np.uint64)
    for term in terms:
        found[bit(term) // 64] |= np.uint64(1 << bit(term) % 64)
    return found


some_terms = st.sets(st.integers(1, TERMS), max_size=12)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(some_terms, some_terms), max_size=6), st.data())
def test_it_is_the_share_of_the_companions_that_are_said(posts, data):
    """Each post is what it says, and which of it leads."""
    companions = [data.draw(some_terms) for _ in range(TERMS + 1)]
    counts = np.array([data.draw(st.integers(0, 1000)) for _ in range(TERMS + 1)], np.uint32)
    said = [sorted(terms) for terms, _ in posts]
    leads = [[term for term in terms if term in leading] for terms, (_, leading) in zip(said, posts, strict=True)]
    active = [(own + [0] * len(terms))[: len(terms)] for own, terms in zip(leads, said, strict=True)]
    ends = np.cumsum([len(terms) for terms in said], dtype=np.uint32) if said else np.zeros(0, np.uint32)
    bounds = np.column_stack([np.concatenate([[0], ends[:-1]]) if said else ends, ends]).astype(np.uint32)
    worth = np.zeros(sum(map(len, said)), np.uint64)
    within_reach(
        np.array([*chain.from_iterable(said)], np.uint32),
        bounds,
        np.array([*chain.from_iterable(active)], np.uint32),
        np.array([signature(one) for one in companions]),
        counts,
        worth,
    )
    for (first, _), own, terms in zip(bounds.tolist(), leads, said, strict=True):
        for place, term in enumerate(own):
            asked, met = ({bit(one) for one in these} for these in (companions[term], terms))
            share = int(counts[term]) * UNIT * len(asked & met) // max(1, len(asked))
            assert worth[first + place] == max(1, share)


def test_a_post_stays_where_it_may_satisfy_more_not_where_more_is_asked_for(tmp_path):
    """`crowd` leads to twenty subscriptions, of which the post may satisfy one; `silver` to two, both satisfied."""
    common = [f"w{number}" for number in range(20)]
    padding = [f"{word} pad{number}" for word in common for number in range(25)]  # else they were the rarest
    queries = ["silver", "silver w0", *(f"crowd {word}" for word in common), *padding]
    rows = pa.table({"id": range(len(queries)), "query": queries})
    index, _ = create_index(tmp_path, rows, PlanRecord("hash", 8, 7))
    router, received = Router(index), index.receiver().receive(pa.array(["crowd silver w0"]))
    nowhere = np.full((1, 2), np.nan)
    assert len(router.route(received, nowhere).shares) == 2
    (share,) = router.route(received, nowhere, Shed("subscription", 1.0)).shares
    there = {int(one) for live in index.shard(share.matcher) for one in live.segment.ids}
    assert {0, 1} <= there
    assert 2 not in there
