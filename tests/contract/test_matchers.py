"""Every matcher and plan, with any number of matchers and any batch size, gives exactly the brute-force matches."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.contract.matchers import MATCHERS
from tests.data import real_queries, real_tweets

from tidings.demo.generate import generate_posts, generate_queries
from tidings.matching.brute_force import RawPost
from tidings.matching.trie import TrieMatcher
from tidings.testing import contract
from tidings.testing.oracles import Matches, expected_matches
from tidings.testing.strategies import post_lists, query_lists

every_matcher = pytest.mark.parametrize("name", MATCHERS)


def to_posts(*texts: str) -> list[RawPost]:
    return [RawPost(text) for text in texts]


@every_matcher
@settings(
    max_examples=settings.default.max_examples // 7,  # 14, and 42 in `make test-long`
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(queries=query_lists, posts=post_lists, batch_size=st.sampled_from([1, 3, 1000]))
@example(queries=["cat OR dog", "cat OR dog"], posts=to_posts("cat dog", "dog", ""), batch_size=1000)
@example(queries=["within:0,0,10,10 OR cat"], posts=[RawPost("cat", 3.0, 3.0)], batch_size=1)
@example(
    queries=['"the white house" -"white house dog"'],
    posts=to_posts("the white house cat", "the white house dog"),
    batch_size=2,
)
def test_random_queries_and_posts_give_the_brute_force_matches(name, queries, posts, batch_size):
    contract.assert_same_matches(MATCHERS[name], queries, posts, batch_size)


@every_matcher
def test_empty_inputs_give_the_brute_force_matches(name):
    contract.check_empty_inputs(MATCHERS[name])


@every_matcher
def test_all_subscriptions_with_the_same_words_are_reported(name):
    contract.check_repeated_queries(MATCHERS[name])


@every_matcher
def test_a_post_of_hundreds_of_words_gives_the_brute_force_matches(name):
    contract.check_long_posts(MATCHERS[name])


@every_matcher
def test_a_conjunction_of_hundreds_of_words_gives_the_brute_force_matches(name):
    contract.check_long_conjunctions(MATCHERS[name])


@every_matcher
def test_generated_posts_and_queries_give_the_brute_force_matches(name):
    queries, posts, matches = _generated_workload()
    assert sorted(MATCHERS[name](queries, posts, 128)) == matches


@pytest.mark.real_data
@every_matcher
def test_real_posts_and_queries_give_the_brute_force_matches(name):
    queries, posts, matches = _real_workload()
    assert sorted(MATCHERS[name](queries, posts, 250)) == matches


def test_the_shipped_check_accepts_the_trie():
    contract.check_matcher(TrieMatcher, max_examples=10)


class LossyMatcher(TrieMatcher):
    """Loses the matches of the last post of a batch."""

    def match(self, batch, positions):
        hits = super().match(batch, positions)
        counts = hits.counts.copy()
        counts[-1:] = 0
        return type(hits)(hits.subscriptions[: int(counts.sum())], counts)


class RepeatingMatcher(TrieMatcher):
    """Reports every match twice."""

    def match(self, batch, positions):
        hits = super().match(batch, positions)
        return type(hits)(hits.subscriptions.repeat(2), hits.counts * 2)


@pytest.mark.parametrize(("matcher", "problem"), [(LossyMatcher, "missing"), (RepeatingMatcher, "repeated")])
def test_the_shipped_check_rejects_a_wrong_matcher(matcher, problem):
    with pytest.raises(AssertionError, match=problem):
        contract.check_matcher(matcher, max_examples=10)


@cache
def _generated_workload() -> tuple[list[str], list[RawPost], Matches]:
    table = generate_posts(300, seed=5)
    posts = [RawPost(*row) for row in zip(*(table[name].to_pylist() for name in ("text", "lat", "lon")), strict=True)]
    queries = generate_queries(3000, seed=5)
    matches = expected_matches(queries, posts)
    assert len(matches) > 1000
    return queries, posts, matches


@cache
def _real_workload() -> tuple[list[str], list[RawPost], Matches]:
    tweets = real_tweets(400, skip=1000)
    from_tweets = [" ".join(text.split()[1:4]) for text in tweets[:200]]  # queries that certainly have matches
    queries = [*real_queries(3000), *from_tweets]
    posts = to_posts(*tweets)
    matches = expected_matches(queries, posts)
    assert len(matches) > 200
    return queries, posts, matches
