"""Posts that only one matcher gets are split off, unless they are few."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.routing.router import MatcherBatch, split_off_local

POSTS = 6
targets = st.lists(st.sets(st.integers(0, 2)), min_size=POSTS, max_size=POSTS)  # the matchers of each post


def make_shares(targets):
    """Return shares in which post p has the terms 10 p, 10 p + 1, … (p of them)."""
    shares = []
    for matcher in range(3):
        posts = [post for post, matchers in enumerate(targets) if matcher in matchers]
        terms = [10 * post + number for post in posts for number in range(post)]
        starts = np.cumsum([0, *posts])
        arrays = (np.array(values, np.uint32) for values in (posts, terms, starts))
        shares += [MatcherBatch(matcher, *arrays)] if posts else []
    return shares


def list_copies(shares):
    return sorted(
        (share.matcher, int(post), share.terms[share.starts[row] : share.starts[row + 1]].tolist())
        for share in shares
        for row, post in enumerate(share.posts)
    )


@given(targets)
def test_local_posts_are_those_of_one_matcher(targets):
    shares = make_shares(targets)
    local, others = split_off_local(shares, POSTS)
    assert sorted(list_copies(local) + list_copies(others)) == list_copies(shares)
    single = {post for post, matchers in enumerate(targets) if len(matchers) == 1}
    routed = sum(bool(matchers) for matchers in targets)
    expected = single if 2 * len(single) >= routed else set()
    assert {post for _, post, _ in list_copies(local)} == expected
    assert all(len(share.posts) for share in [*local, *others])


@pytest.mark.parametrize("targets", [[set()] * POSTS, [{0}] * POSTS, [{0, 1}] * POSTS])
def test_all_or_no_posts_are_local(targets):
    shares = make_shares(targets)
    local, others = split_off_local(shares, POSTS)
    assert (len(local), len(others)) == ((len(shares), 0) if len(targets[0]) == 1 else (0, len(shares)))
