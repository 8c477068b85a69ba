"""What is shed: the matchers a post is worth least to, and every one of them is counted."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.matchers import table

from tidings.errors import InputError
from tidings.index.builder import create_index
from tidings.index.manifest import PlanRecord
from tidings.routing.router import Router
from tidings.routing.shed import Shed, check_policy, withhold

MATCHERS = 5
leads = st.lists(st.lists(st.integers(1, 9), max_size=6, unique=True), max_size=12)


def by_definition(posts, matcher_of, worth, limit):
    """For each post, the matchers of its leads that are worth most, as many as allowed; ties: the lower number."""
    kept = []
    for post in posts:
        score = {}
        for lead in post:
            score[matcher_of[lead]] = score.get(matcher_of[lead], 0) + worth[lead]
        kept.append(set(sorted(score, key=lambda matcher: (-score[matcher], matcher))[:limit]))
    return kept


def arrays(posts, matcher_of):
    """The posts as the router leaves them: leads in place with a 0 behind, bounds, the matchers of leads, the bits."""
    active = np.array([term for post in posts for term in (*post, 0)], np.uint32)
    ends = np.cumsum([len(post) + 1 for post in posts]) if posts else np.zeros(0, int)
    bounds = np.column_stack([np.concatenate([[0], ends[:-1]]) if posts else ends, ends]).astype(np.uint32)
    of_term = np.zeros((10, 1), np.uint64)
    of_term[1:, 0] = [1 << matcher for matcher in matcher_of[1:]]
    bits = np.array([[np.bitwise_or.reduce(of_term[post, 0], initial=0)] for post in posts], np.uint64).reshape(-1, 1)
    return active, bounds, of_term, bits


@settings(max_examples=150, deadline=None)
@given(
    leads,
    st.lists(st.integers(0, MATCHERS - 1), min_size=10, max_size=10),
    st.lists(st.integers(1, 5), min_size=10, max_size=10),
    st.integers(1, 4),
)
def test_a_post_goes_to_the_matchers_it_is_worth_most_to(posts, matcher_of, worth, limit):
    active, bounds, of_term, bits = arrays(posts, matcher_of)
    before = bits.copy()
    shed = Shed("subscription", float(limit))
    withheld = withhold(shed, active, bounds, of_term, np.array(worth, np.uint64)[active], bits)
    kept = by_definition(posts, matcher_of, worth, limit)
    assert [{m for m in range(64) if int(row[0]) >> m & 1} for row in bits] == kept
    gone = [{m for m in range(64) if int(row[0]) >> m & 1} - left for row, left in zip(before, kept, strict=True)]
    assert withheld.by_matcher[:MATCHERS].tolist() == [sum(m in one for one in gone) for m in range(MATCHERS)]
    by_lead = [
        sum(lead in post and matcher_of[lead] in one for post, one in zip(posts, gone, strict=True))
        for lead in range(10)
    ]
    assert withheld.by_lead.tolist() == by_lead


def test_a_fraction_is_the_chance_of_one_more():
    posts = [[1, 2, 3]] * 4000
    active, bounds, of_term, bits = arrays(posts, [0, 0, 1, 2, 0, 0, 0, 0, 0, 0])
    withhold(Shed("consensus", 1.25), active, bounds, of_term, np.ones(len(active), np.uint64), bits)
    sent = np.array([bin(int(row)).count("1") for row in bits[:, 0]])
    assert set(sent.tolist()) == {1, 2}
    assert sent.mean() == pytest.approx(1.25, abs=0.03)


def test_at_random_whole_posts_are_dropped_by_chance():
    posts = [[1, 2, 3]] * 4000
    active, bounds, of_term, bits = arrays(posts, [0, 0, 1, 2, 0, 0, 0, 0, 0, 0])
    withheld = withhold(Shed("random", 0.7), active, bounds, of_term, np.ones(len(active), np.uint64), bits)
    sent = bits[:, 0] != 0
    assert set(bits[:, 0].tolist()) == {0, 0b111}
    assert sent.mean() == pytest.approx(0.7, abs=0.03)
    assert withheld.total == 3 * int((~sent).sum())


def test_an_unknown_way_of_shedding_is_refused():
    assert [check_policy(name) for name in ("off", "random")] == ["off", "random"]
    with pytest.raises(InputError, match="choose one of: off, consensus, subscription, random"):
        check_policy("sleep")


@pytest.fixture
def router(tmp_path) -> Router:
    words = [f"w{number}" for number in range(12)]
    queries = [*words, *["w1 w2"] * 40, *itertools.repeat("w3", 30)]
    index, _ = create_index(tmp_path / "index", table(queries), PlanRecord("hash", 8, 7))
    self = Router(index)
    self.receive = index.receiver().receive  # type: ignore[attr-defined]
    return self


@pytest.mark.parametrize("policy", ["off", "consensus", "subscription", "random"])
def test_off_or_without_a_limit_everything_is_sent(router, policy):
    received = router.receive(pa.array(["w1 w2 w3 w4 w5 w6 w7 w8"] * 20))
    nowhere = np.full((20, 2), np.nan)
    whole = router.route(received, nowhere)
    same = router.route(received, nowhere, Shed(policy))
    assert same.withheld is None
    assert [(a.matcher, a.posts.tolist()) for a in whole.shares] == [(b.matcher, b.posts.tolist()) for b in same.shares]


@pytest.mark.parametrize("policy", ["consensus", "subscription"])
def test_what_is_sent_and_what_is_withheld_is_all_there_is(router, policy):
    texts = [" ".join(f"w{(n * k) % 12}" for k in range(1, 6)) for n in range(100)]
    received, nowhere = router.receive(pa.array(texts)), np.full((100, 2), np.nan)
    whole, some = router.route(received, nowhere), router.route(received, nowhere, Shed(policy, 2.0))
    sent = {share.matcher: len(share.posts) for share in some.shares}
    for share in whole.shares:
        assert len(share.posts) == sent.get(share.matcher, 0) + some.withheld.by_matcher[share.matcher]
    assert some.withheld.total > 0
    targets = np.bincount(np.concatenate([share.posts for share in some.shares]), minlength=100)
    assert targets.max() <= 2
