"""Simulated matchers find exactly the matches of the definition; folds and workloads have the described properties."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidings.balance.word_registry import WORD_PARTITIONERS, fit_word_plan
from tidings.demo.generate import generate_posts
from tidings.routing.shed import ShedDecision
from tidings_lab.measurements.shedding import _oracle_by_levels
from tidings_lab.sample_queries import NumberedPosts
from tidings_lab.simulated_matchers import SimulatedCluster
from tidings_lab.workload import (
    NumberedSubscriptions,
    draw_topic_based,
    draw_tweet_based,
    find_topics,
    make_folds,
    number_posts,
)

SEED = 3


@pytest.fixture(scope="module")
def posts() -> NumberedPosts:
    return number_posts(generate_posts(2_000, SEED).column("text").combine_chunks())


def _subscription_terms(subscribed: NumberedSubscriptions, number: int) -> set[bytes]:
    starts = subscribed.conjunctions.starts
    return set(subscribed.text_of(subscribed.conjunctions.terms[int(starts[number]) : int(starts[number + 1])]))


def _post_terms(posts: NumberedPosts, number: int) -> set[bytes]:
    return {posts.terms[word - 1] for word in posts.words[posts.starts[number] : posts.starts[number + 1]].tolist()}


def _expected_matches(subscribed: NumberedSubscriptions, posts: NumberedPosts) -> set[tuple[int, int]]:
    """Return the matches by definition: the post has every term of the subscription."""
    queries = [_subscription_terms(subscribed, number) for number in range(len(subscribed))]
    texts = [_post_terms(posts, number) for number in range(len(posts))]
    pairs = ((post, number) for post in range(len(texts)) for number in range(len(queries)))
    return {(post, number) for post, number in pairs if queries[number] <= texts[post]}


@pytest.mark.parametrize("algorithm", WORD_PARTITIONERS)
@pytest.mark.parametrize("placement", ["anchor", "lasp", "random"])
def test_cluster_finds_the_matches_of_the_definition_for_every_plan(
    posts: NumberedPosts, algorithm: str, placement: str
) -> None:
    fold = make_folds(posts, 5, 1, 800, 150, SEED)[0]
    subscribed = draw_topic_based(find_topics(fold.known, 8, 5, SEED), posts.terms, 120, SEED)
    cluster = SimulatedCluster(subscribed, fit_word_plan(algorithm, subscribed.corpus(fold.known), 6), placement, SEED)
    batch = subscribed.analyze(fold.unseen)
    shares = cluster.route(batch).batches
    found = {(int(pair >> np.uint64(32)), int(pair & np.uint64(0xFFFFFFFF))) for pair in cluster.find_matches(shares)}
    assert found == _expected_matches(subscribed, fold.unseen)
    assert found
    work = cluster.work(batch, 2)
    assert work.loads.sum() == sum(len(share.posts) for share in shares)
    assert work.hits.sum() >= len(found)
    metrics = work.to_dict()
    assert metrics["throughput"] == pytest.approx(len(batch) / work.seconds.min(axis=0).max())


def test_shedding_only_loses_matches(posts: NumberedPosts) -> None:
    fold = make_folds(posts, 5, 1, 800, 300, SEED)[0]
    subscribed = draw_tweet_based(fold.known, 200, SEED)
    cluster = SimulatedCluster(subscribed, fit_word_plan("salb+", subscribed.corpus(fold.known), 8), "anchor", SEED)
    batch = subscribed.analyze(fold.unseen)
    everything = set(cluster.find_matches(cluster.route(batch).batches).tolist())
    shed = cluster.route(batch, ShedDecision("subscription", 1.0, SEED))
    assert set(cluster.find_matches(shed.batches).tolist()) <= everything
    assert shed.shed is not None


def test_folds_separate_known_and_unseen_posts(posts: NumberedPosts) -> None:
    numbered = NumberedPosts(np.arange(1, 101, dtype=np.uint32), np.arange(101, dtype=np.int64), [b"x"] * 100)
    folds = make_folds(numbered, 10, 10, 1_000, 1_000, SEED)
    for fold in folds:
        assert not set(fold.known.words.tolist()) & set(fold.unseen.words.tolist())
        assert len(fold.known) + len(fold.unseen) == 100
    assert sorted(word for fold in folds for word in fold.unseen.words.tolist()) == list(range(1, 101))


def test_subscriptions_have_all_terms_of_a_tweet_or_terms_of_one_topic(
    posts: NumberedPosts,
) -> None:
    texts = [_post_terms(posts, number) for number in range(len(posts))]
    tweets = draw_tweet_based(posts, 50, SEED)
    assert all(_subscription_terms(tweets, number) in texts for number in range(50))
    found = find_topics(posts, 10, 5, SEED)
    topics = [{posts.terms[word - 1] for word in row} for row in found.tolist()]
    drawn = draw_topic_based(found, posts.terms, 400, SEED)
    lengths = {len(_subscription_terms(drawn, number)) for number in range(400)}
    assert lengths == {1, 2, 3, 4, 5}
    assert all(any(_subscription_terms(drawn, number) <= topic for topic in topics) for number in range(400))
    assert np.array_equal(found, find_topics(posts, 10, 5, SEED))


def test_prefixes_of_reposts_are_not_terms() -> None:
    numbered = number_posts(pa.array(["RT storm in London", "QT storm"]))
    assert [_post_terms(numbered, number) for number in (0, 1)] == [{b"storm", b"london"}, {b"storm"}]


def test_oracle_by_levels_keeps_the_best_matchers_of_every_post():
    """Three posts with at most one matcher each: 5 + 2 + 1 of 11 matches, three of five pairs sent."""
    worth = np.array([[5, 3, -1], [2, -1, -1], [0, -1, 1]], np.int32)
    assert _oracle_by_levels(worth, 3.0) == {"accuracy": 1.0, "shed": 0.0}
    assert _oracle_by_levels(worth, 1.0) == {"accuracy": pytest.approx(8 / 11), "shed": pytest.approx(2 / 5)}
    assert _oracle_by_levels(worth, 1.5) == {"accuracy": pytest.approx(9.5 / 11), "shed": pytest.approx(1 / 5)}
    assert _oracle_by_levels(np.full((0, 3), -1, np.int32), 1.0) == {"accuracy": 1.0, "shed": 0.0}
