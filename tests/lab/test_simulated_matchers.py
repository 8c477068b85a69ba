"""Simulated matchers find exactly the matches of the definition; folds and workloads have the described properties."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidings.balance.word_registry import WORD_PARTITIONERS, fit_word_plan
from tidings.demo.generate import generate_posts
from tidings.matching.dedup import merge_hits
from tidings.plan.words import LearnedPlan, WordPlan
from tidings.routing.shed import ShedDecision
from tidings_lab.datasets import Posts
from tidings_lab.measurements.corpus import count_pairs
from tidings_lab.measurements.shedding import _oracle_by_levels
from tidings_lab.plan_learner import CORPORA, PlanLearner, list_arms
from tidings_lab.sample_queries import NumberedPosts
from tidings_lab.simulated_matchers import (
    Run,
    ShardHits,
    SimulatedCluster,
    list_pairs,
    measure_in_turns,
)
from tidings_lab.workload import (
    NumberedSubscriptions,
    draw_topic_based,
    draw_tweet_based,
    find_topics,
    iter_workloads,
    make_folds,
    number_posts,
    words_per_topic,
)

SEED = 3
NO_SHEDDING = ShedDecision()


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
    subscribed = draw_topic_based(find_topics(fold.known, 8, 5, SEED), posts, 120, SEED)
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
        assert sorted(fold.pool().words.tolist()) == sorted(fold.known.words.tolist())  # all others were learned
    assert sorted(word for fold in folds for word in fold.unseen.words.tolist()) == list(range(1, 101))


def test_subscriptions_are_distinct_tweets_or_terms_of_one_topic(posts: NumberedPosts) -> None:
    texts = [_post_terms(posts, number) for number in range(len(posts))]
    tweets = draw_tweet_based(posts, 50, SEED)
    drawn = [frozenset(_subscription_terms(tweets, number)) for number in range(50)]
    assert all(terms in texts for terms in drawn)
    assert len(set(drawn)) == tweets.count_distinct() == 50
    found = find_topics(posts, 10, 5, SEED, words_per_topic(400, 10))
    topics = [{posts.terms[word - 1] for word in row} for row in found.tolist()]
    by_topic = draw_topic_based(found, posts, 400, SEED)
    sets = [frozenset(_subscription_terms(by_topic, number)) for number in range(400)]
    assert {len(terms) for terms in sets} == {1, 2, 3, 4, 5}
    assert all(any(terms <= topic for topic in topics) for terms in sets)
    assert len(set(sets)) == by_topic.count_distinct() == 400
    assert np.array_equal(found, find_topics(posts, 10, 5, SEED, words_per_topic(400, 10)))


def test_subscriptions_come_from_more_posts_than_are_learned(posts: NumberedPosts) -> None:
    parameters = {"folds": 4, "folds_run": 1, "learned": 10, "tested": 50, "subscriptions": 100, "kinds": ["tweet"]}
    table = generate_posts(2_000, SEED).select(["id", "text"])
    work = next(iter_workloads(Posts(table, "tweets.parquet"), parameters, SEED))
    assert len(work.fold.known) == 10
    texts = [_post_terms(posts, number) for number in range(len(posts))]
    assert all(_subscription_terms(work.subscribed, number) in texts for number in range(100))  # no parts of posts


def test_parts_of_posts_are_drawn_where_posts_are_fewer_than_subscriptions(posts: NumberedPosts) -> None:
    few = posts.first(60)
    texts = [_post_terms(few, number) for number in range(len(few))]
    drawn = draw_tweet_based(few, 500, SEED)
    sets = [frozenset(_subscription_terms(drawn, number)) for number in range(500)]
    assert len(set(sets)) == drawn.count_distinct() == 500
    assert {frozenset(text) for text in texts if text} <= set(sets)
    assert all(any(terms <= text for text in texts) for terms in sets)


def test_repeated_topics_are_those_of_the_paper(posts: NumberedPosts) -> None:
    """100 topics of five terms have at most 3,100 different subscriptions; the paper draws 100,000."""
    assert words_per_topic(775, 100) == 5
    assert words_per_topic(776, 100) > 5
    drawn = draw_topic_based(find_topics(posts, 10, 5, SEED), posts, 400, SEED, distinct=False)
    assert len(drawn) == 400
    assert drawn.count_distinct() <= 310


def _as_learned(plan: WordPlan) -> LearnedPlan:
    assert isinstance(plan, LearnedPlan)
    return plan


@pytest.mark.parametrize("corpus", CORPORA)
def test_all_algorithms_learn_from_the_same_terms_with_the_same_splits(posts: NumberedPosts, corpus: str) -> None:
    fold = make_folds(posts, 5, 1, 800, 150, SEED)[0]
    subscribed = draw_topic_based(find_topics(fold.known, 8, 5, SEED), posts, 120, SEED)
    learner = PlanLearner(subscribed, fold.known, 6)
    for split in (True, False):
        arms = list_arms(list(WORD_PARTITIONERS), [corpus], [split])
        plans = {arm.algorithm: _as_learned(learner.learn(arm)) for arm in arms}
        ours = plans["salb+"]
        assert (ours.splits_of(subscribed.terms).counts.max() > 1) == split
        for name, plan in plans.items():
            assert plan.algorithm == name
            assert sorted(plan.vocabulary.terms()) == sorted(ours.vocabulary.terms())
            assert np.array_equal(plan.splits_of(subscribed.terms).counts, ours.splits_of(subscribed.terms).counts)
        assert not np.array_equal(*(plans[name].splits_of(subscribed.terms).matchers for name in ("hash", "salb")))


def test_anchors_are_the_terms_of_fewest_posts_as_in_an_index(posts: NumberedPosts) -> None:
    subscribed = draw_tweet_based(posts, 300, SEED)
    counts = dict(zip(posts.terms, np.bincount(posts.words, minlength=len(posts.terms) + 1)[1:].tolist(), strict=True))
    part = subscribed.first(100)
    for some in (subscribed, part):
        starts = some.conjunctions.starts[:-1].astype(np.int64)
        anchors = some.text_of(some.conjunctions.terms[starts])
        rarest = [min(counts[term] for term in _subscription_terms(some, number)) for number in range(len(some))]
        assert [counts[term] for term in anchors] == rarest
    assert [_subscription_terms(part, n) for n in range(100)] == [
        _subscription_terms(subscribed, n) for n in range(100)
    ]
    assert len(part.analyze(posts).terms) < len(subscribed.analyze(posts).terms)


def test_merging_drops_second_copies_of_shared_subscriptions() -> None:
    first = ShardHits(np.array([0, 2], np.uint32), np.array([5, 7]), np.array([True, False]))
    second = ShardHits(np.array([0, 1], np.uint32), np.array([5, 5]), np.array([True, True]))
    ids, counts = merge_hits([first.to_reply(), second.to_reply()], 4)
    assert ids.to_pylist() == [5, 5, 7]
    assert counts.tolist() == [1, 1, 1, 0]
    assert list_pairs([first, second]).tolist() == [0 << 32 | 5, 1 << 32 | 5, 2 << 32 | 7]
    assert list_pairs([]).tolist() == []


def test_runs_are_measured_in_turns_with_routing_and_merging(posts: NumberedPosts) -> None:
    fold = make_folds(posts, 5, 1, 800, 150, SEED)[0]
    subscribed = draw_tweet_based(fold.known, 200, SEED)
    turns: list[str] = []

    class Recorded(SimulatedCluster):
        def route(self, posts, shed=NO_SHEDDING):
            turns.append(self.index.manifest.plan.algorithm)
            return super().route(posts, shed)

    plans = [fit_word_plan(name, subscribed.corpus(fold.known), 4) for name in ("hash", "salb")]
    batch = subscribed.analyze(fold.unseen)
    works = measure_in_turns([Run(Recorded(subscribed, plan, "anchor", SEED), batch) for plan in plans], 3)
    assert turns == ["hash", "salb"] * 4  # the first turn is a warm-up
    assert all(work.seconds.shape == (3, 4) for work in works)
    assert all((work.route_seconds > 0).all() and (work.merge_seconds > 0).all() for work in works)
    assert works[0].matches == works[1].matches == len(_expected_matches(subscribed, fold.unseen))


def test_workloads_leave_out_the_posts_that_constants_are_chosen_on() -> None:
    texts = [f"word{chr(97 + number // 26)}{chr(97 + number % 26)}zz storm" for number in range(100)]
    posts = Posts(pa.table({"id": np.arange(100), "text": texts}), "tweets.parquet")
    sizes = {"folds": 4, "folds_run": 4, "learned": 1_000, "tested": 1_000, "subscriptions": 5, "kinds": ["tweet"]}
    workloads = list(iter_workloads(posts, {**sizes, "datasets": ["tweets.parquet"], "judged_from": 0.2}, SEED))
    assert [work.about["fold"] for work in workloads] == [0, 1, 2, 3]
    for work in workloads:
        both = [_post_terms(part, row) for part in (work.fold.known, work.fold.unseen) for row in range(len(part))]
        seen = {term for terms in both for term in terms} - {b"storm"}
        assert len(both) == 80
        assert seen == {texts[number].split()[0].encode() for number in range(20, 100)}
        assert len(work.subscribed) == work.about["distinct"] == 5


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


def test_pairs_of_words_are_counted_once() -> None:
    numbered = NumberedPosts(np.array([1, 2, 5, 1, 2, 3, 4], np.uint32), np.array([0, 3, 5, 5, 7]), [b"x"] * 5)
    assert count_pairs(numbered) == 4  # 1-2, 1-5, 2-5, 3-4
