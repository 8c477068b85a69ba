"""Every matcher, every plan, any number of matchers, any batch size: exactly the brute force's matches, each once."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.contract.matchers import MATCHERS, expected
from tests.data import real_queries, real_tweets
from tests.generators import UNSEEN, WORDS, long_text, post_lists, query_lists

from tidings.demo.generate import generate_posts, generate_queries
from tidings.matching.brute_force import ScanPost

every_matcher = pytest.mark.parametrize("name", MATCHERS)


def found_by(name: str, queries: list[str], posts: list[ScanPost], batch_size: int) -> list[tuple[int, int]]:
    with tempfile.TemporaryDirectory() as folder:
        return MATCHERS[name](Path(folder) / "index", queries, posts, batch_size)


def said(*texts: str) -> list[ScanPost]:
    return [ScanPost(text) for text in texts]


@every_matcher
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(queries=query_lists, posts=post_lists, batch_size=st.sampled_from([1, 3, 1000]))
@example(queries=["cat OR dog", "cat OR dog"], posts=said("cat dog", "dog", ""), batch_size=1000)
@example(queries=["within:0,0,10,10 OR cat"], posts=[ScanPost("cat", 3.0, 3.0)], batch_size=1)
@example(
    queries=['"the white house" -"white house dog"'],
    posts=said("the white house cat", "the white house dog"),
    batch_size=2,
)
def test_finds_exactly_what_the_brute_force_finds(name, queries, posts, batch_size):
    assert found_by(name, queries, posts, batch_size) == expected(queries, posts)


@every_matcher
@pytest.mark.parametrize("queries", [[], ["the"], ["cat"]], ids=["no subscriptions", "only a bad one", "one"])
@pytest.mark.parametrize("texts", [[], [""], ["", "", "zebra"], ["cats"]], ids=["no posts", "empty", "unseen", "cat"])
def test_empty_sets_are_sets(name, queries, texts):
    posts = said(*texts)
    assert found_by(name, queries, posts, 10) == expected(queries, posts)


@every_matcher
def test_many_subscriptions_of_the_same_words_are_all_reported(name):
    queries = ["cat"] * 300 + ["dog cat", "cat dog cat", "cat OR dog"] * 100
    posts = said(*["cats", "dog", "dogs cat"] * 60)
    assert found_by(name, queries, posts, 90) == expected(queries, posts)


@every_matcher
def test_a_post_of_hundreds_of_words_finds_all_it_should(name):
    queries = [*WORDS, *UNSEEN, "w1", "w1 w2", "w1 w2 w3", '"w1 w2"', "w5 OR w6 OR w7", "w8 -w9"]
    queries += [f"w{number} w{number * 7 % 999} w{number * 11 % 999}" for number in range(400)]
    posts = said(*(long_text(seed, 900) for seed in range(8)))
    assert found_by(name, queries, posts, 5) == expected(queries, posts)


@every_matcher
def test_a_conjunction_may_have_a_thousand_words(name):
    thousand = [f"w{number}" for number in range(800)]
    queries = [" ".join(thousand), " ".join(thousand[:-1]), "w3 " + " OR ".join(thousand[:300]), " ".join(thousand[:5])]
    posts = said(" ".join(thousand), " ".join(thousand[1:]), " ".join(thousand[:-1]), "w3", " ".join(thousand[:5]))
    assert found_by(name, queries, posts, 2) == expected(queries, posts)


@every_matcher
def test_generated_posts_and_queries_match_as_by_brute_force(name):
    queries, posts, matches = _generated()
    assert found_by(name, queries, posts, 128) == matches


@every_matcher
def test_real_posts_and_queries_match_as_by_brute_force(name):
    queries, posts, matches = _real()
    assert found_by(name, queries, posts, 250) == matches


@cache
def _generated() -> tuple[list[str], list[ScanPost], list[tuple[int, int]]]:
    table = generate_posts(300, seed=5)
    posts = [ScanPost(*row) for row in zip(*(table[name].to_pylist() for name in ("text", "lat", "lon")), strict=True)]
    queries = generate_queries(3000, seed=5)
    matches = expected(queries, posts)
    assert len(matches) > 1000
    return queries, posts, matches


@cache
def _real() -> tuple[list[str], list[ScanPost], list[tuple[int, int]]]:
    tweets = real_tweets(400, skip=1000)
    said_together = [" ".join(text.split()[1:4]) for text in tweets[:200]]  # queries that are sure to find something
    queries = [*real_queries(3000), *said_together]
    posts = said(*tweets)
    matches = expected(queries, posts)
    assert len(matches) > 200
    return queries, posts, matches
