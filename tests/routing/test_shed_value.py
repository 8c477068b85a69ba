"""The value of a conjunction of an anchor: the fraction of the companions of the anchor in the post."""

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
from tidings.routing.shed import ShedDecision
from tidings.routing.shed_value import UNIT, match_potential

TERMS = 40


def bit(term: int) -> int:
    """Return the bit of a term in a signature by its definition: the upper eight bits of a product."""
    return term * 0x9E3779B97F4A7C15 % (1 << 64) >> 56


def signature(terms) -> np.ndarray:
    found = np.zeros(anchors.SIGNATURE_WORDS, np.uint64)
    for term in terms:
        found[bit(term) // 64] |= np.uint64(1 << bit(term) % 64)
    return found


some_terms = st.sets(st.integers(1, TERMS), max_size=12)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(some_terms, some_terms), max_size=6), st.data())
def test_the_value_is_the_fraction_of_the_companions_in_the_post(posts, data):
    """Each post is its terms, and which of them are anchors."""
    companions = [data.draw(some_terms) for _ in range(TERMS + 1)]
    term_lists = [sorted(terms) for terms, _ in posts]
    anchor_lists = [
        [term for term in terms if term in anchors_of_post]
        for terms, (_, anchors_of_post) in zip(term_lists, posts, strict=True)
    ]
    active = [
        (post_anchors + [0] * len(terms))[: len(terms)]
        for post_anchors, terms in zip(anchor_lists, term_lists, strict=True)
    ]
    ends = np.cumsum([len(terms) for terms in term_lists], dtype=np.uint32) if term_lists else np.zeros(0, np.uint32)
    bounds = np.column_stack([np.concatenate([[0], ends[:-1]]) if term_lists else ends, ends]).astype(np.uint32)
    worth = np.zeros(sum(map(len, term_lists)), np.uint64)
    match_potential(
        np.array([*chain.from_iterable(term_lists)], np.uint32),
        bounds,
        np.array([*chain.from_iterable(active)], np.uint32),
        np.array([signature(one) for one in companions]),
        worth,
    )
    for (first, _), post_anchors, terms in zip(bounds.tolist(), anchor_lists, term_lists, strict=True):
        for offset, term in enumerate(post_anchors):
            companion_bits, post_bits = ({bit(one) for one in these} for these in (companions[term], terms))
            part = UNIT * len(companion_bits & post_bits) // max(1, len(companion_bits))
            assert worth[first + offset] == max(1, part)


def test_a_post_stays_where_it_may_match_more_not_where_there_is_more(tmp_path):
    """`crowd` is the anchor of twenty subscriptions, of which one may match; `silver` of two that both match."""
    common = [f"w{number}" for number in range(20)]
    padding = [f"{word} pad{number}" for word in common for number in range(25)]  # otherwise they would be the rarest
    queries = ["silver", "silver w0", *(f"crowd {word}" for word in common), *padding]
    rows = pa.table({"id": range(len(queries)), "query": queries})
    index, _ = create_index(tmp_path, rows, PlanRecord("hash", 8, 7))
    router, batch = Router(index), index.analyzer().analyze(pa.array(["crowd silver w0"]))
    nowhere = np.full((1, 2), np.nan)
    assert len(router.route(batch, nowhere).batches) == 2
    (part,) = router.route(batch, nowhere, ShedDecision("subscription", 1.0)).batches
    matcher_ids = {int(one) for view in index.open_shard(part.matcher) for one in view.segment.ids}
    assert {0, 1} <= matcher_ids
    assert 2 not in matcher_ids
