"""The cluster as printed follows equation 3.1, algorithm 2 and section 4.1, and finds exactly the matches."""

from __future__ import annotations

import numpy as np
import pytest

from tidings.balance.word_registry import fit_word_plan
from tidings.demo.generate import generate_posts
from tidings.matching.segment_matcher import missing_positions
from tidings.matching.trie import TrieMatcher, rank_lexicographically
from tidings.plan.hot_splits import HotSplits
from tidings_lab.as_printed import (
    PLACEMENTS,
    CountingTrie,
    LookupLine,
    PrintedCluster,
    list_rows,
    place_at_random,
    place_by_lasp,
)
from tidings_lab.sample_queries import NumberedPosts
from tidings_lab.simulated_matchers import Run, SimulatedCluster, list_pairs, measure_in_turns
from tidings_lab.workload import Fold, NumberedSubscriptions, draw_tweet_based, make_folds, number_posts

SEED = 3
LINE = LookupLine(1.0, 1.0)
PLAIN = HotSplits.unsplit(np.array([0, 1, 1], np.uint16))  # word 1 on matcher 0; words 2 and 3 on matcher 1


@pytest.fixture(scope="module")
def fold() -> Fold:
    posts = number_posts(generate_posts(2_000, SEED).column("text").combine_chunks())
    return make_folds(posts, 5, 1, 800, 150, SEED)[0]


@pytest.fixture(scope="module")
def subscribed(fold: Fold) -> NumberedSubscriptions:
    few = NumberedPosts(fold.known.words[: int(fold.known.starts[40])], fold.known.starts[:41], fold.known.terms)
    return draw_tweet_based(few, 300, SEED)


def test_lasp_follows_algorithm_2_on_a_small_example() -> None:
    """f(n) = 1 + n. {1, 2}: a tie, so matcher 0. {2, 3}: only matcher 1 may. {1, 2} again: matcher 0 has both words.

    Then {1, 3}: one missing word and the same loads on both, so matcher 0; then its load is 4 and that of matcher 1
    is 3: {1, 2, 3} has all words on matcher 0 (l = 1, loads 4 and 3) and misses one on matcher 1 (l = 2, loads 4, 4).
    Even loads make the utility 0: matcher 1.
    """
    rows = [[1, 2], [2, 3], [1, 2], [1, 3], [1, 2, 3]]
    assert place_by_lasp(rows, PLAIN, 2, LINE) == [(0, 0), (1, 1), (2, 0), (3, 0), (4, 1)]


def test_only_subscriptions_of_hot_words_are_on_several_matchers() -> None:
    splits = HotSplits(np.array([0, 1, 0, 1], np.uint16), np.array([0, 1, 2, 4], np.uint64))  # word 3 has two versions
    rows = [[3], [2, 3], [1, 3]]
    expected = [(0, 0), (0, 1), (1, 1), (2, 0)]
    assert place_by_lasp(rows, splits, 2, LINE) == expected
    assert place_at_random(rows, splits, np.random.default_rng(SEED)) == expected


def test_trie_counts_a_look_up_per_visited_node_and_word() -> None:
    """The post 1 2 4 visits the root, 1, and 1-2: three nodes of three look-ups each."""
    trie = CountingTrie([[1, 2], [1, 3], [1], [5]])
    assert trie.words == 4
    found, lookups = trie.visit([1, 2, 4])
    assert (sorted(found), lookups) == ([0, 2], 9)
    assert trie.visit([4]) == ([], 1)


def test_counting_trie_finds_what_the_trie_of_tidings_finds(fold: Fold, subscribed: NumberedSubscriptions) -> None:
    rank = rank_lexicographically(subscribed.terms)
    posts = subscribed.analyze(fold.known)
    hits = TrieMatcher(subscribed.conjunctions, rank).match(posts, missing_positions(len(posts)))
    trie = CountingTrie(list_rows(subscribed.conjunctions, rank))
    visited = [sorted(trie.visit(posts.terms[start:end].tolist())[0]) for start, end in posts.bounds.tolist()]
    assert [len(found) for found in visited] == hits.counts.tolist()
    assert [number for found in visited for number in found] == hits.subscriptions.tolist()
    assert len(hits) > len(posts) / 10


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("split", [True, False])
def test_printed_cluster_finds_the_matches_of_tidings(
    fold: Fold, subscribed: NumberedSubscriptions, placement: str, split: bool
) -> None:
    plan = fit_word_plan("salb", subscribed.corpus(fold.known), 6, split)
    posts = subscribed.analyze(fold.known)
    printed = PrintedCluster(subscribed, plan, placement, LINE, SEED)
    ours = SimulatedCluster(subscribed, plan, "anchor", SEED)
    shares = printed.route(posts).batches
    found = list_pairs([printed.locate(share, printed.match_share(share)) for share in shares])
    assert np.array_equal(found, ours.find_matches(ours.route(posts).batches))
    assert len(found)
    first, second = measure_in_turns([Run(printed, posts), Run(ours, posts)], 1)
    assert first.matches == second.matches == len(found)
    assert first.loads.sum() >= second.loads.sum()  # eq. 3.1 sends a post to more matchers than anchors do


def test_a_post_goes_to_the_matchers_of_all_its_subscribed_words(fold: Fold, subscribed: NumberedSubscriptions) -> None:
    plan = fit_word_plan("hash", subscribed.corpus(fold.known), 5, False)
    posts = subscribed.analyze(fold.unseen)
    matcher_of = plan.splits_of(subscribed.terms).matchers
    expected = {
        (post, int(matcher_of[word - 1]))
        for post, (start, end) in enumerate(posts.bounds.tolist())
        for word in posts.terms[start:end].tolist()
    }
    shares = PrintedCluster(subscribed, plan, "lasp", LINE, SEED).route(posts).batches
    assert {(post, share.matcher) for share in shares for post in share.posts.tolist()} == expected
