"""Examples that reach every branch of every kernel; `test_without_jit.py` runs them without the compiler too."""

from __future__ import annotations

import pytest
from tests.contract.matchers import MATCHERS

from tidings.testing.contract import assert_same_matches
from tidings.testing.examples import POSTS, QUERIES


@pytest.mark.parametrize("name", MATCHERS)
@pytest.mark.parametrize("batch_size", [1000, 7])
def test_every_branch_gives_the_brute_force_matches(name, batch_size):
    assert_same_matches(MATCHERS[name], QUERIES, POSTS, batch_size)


@pytest.mark.parametrize("name", MATCHERS)
def test_a_single_subscription_gives_the_brute_force_matches(name):
    """Alone, it is not reached by the anchors of others."""
    for query in QUERIES[6::4]:
        assert_same_matches(MATCHERS[name], [query], POSTS, 1000)
