"""Shedding counts subscriptions where they are, copies of hot terms once, and repeated words once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.index.builder import create_index
from tidings.index.manifest import PlanRecord
from tidings.index.reader import Index
from tidings.plan.hot_splits import HotSplits
from tidings.plan.words import LearnedPlan
from tidings.routing.router import Router
from tidings.routing.shed import ShedDecision
from tidings.testing.pipeline import subscription_table
from tidings.text.vocabulary import Vocabulary

POLICIES = ["consensus", "subscription"]
WORDS = [f"w{number}" for number in range(12)]


def build_index(folder, queries: list[str], matchers_of: dict[str, list[int]], placer: str = "anchor") -> Index:
    """Build an index for 8 matchers; `matchers_of` has the matchers of each word, several for a hot one."""
    starts = np.cumsum([0, *map(len, matchers_of.values())]).astype(np.uint64)
    splits = HotSplits(np.concatenate([*matchers_of.values()]).astype(np.uint16), starts)
    plan = LearnedPlan("salb+", 8, 0, 1, Vocabulary.build([word.encode() for word in matchers_of]), splits)
    record = PlanRecord("salb+", 8, 7, placer)
    return create_index(folder / "index", subscription_table(queries), record, lambda terms, conjunctions: plan)[0]


def route(index: Index, texts: list[str], policy: str = "off", limit: float = np.inf) -> list[set[int]]:
    """Return the matchers of each post."""
    batch = index.analyzer().analyze(pa.array(texts))
    routed = Router(index).route(batch, np.full((len(texts), 2), np.nan), ShedDecision(policy, limit)).batches
    return [{part.matcher for part in routed if post in part.posts} for post in range(len(texts))]


def test_copies_of_hot_subscriptions_count_once(tmp_path):
    index = build_index(tmp_path, ["rain"] * 3 + ["w5"] * 10, {"rain": [0, 1, 2, 3, 4, 5, 6], "w5": [7]})
    (all_matchers,) = route(index, ["rain w5"])
    assert len(all_matchers) == 2
    assert route(index, ["rain w5"], "subscription", 1.0) == [{7}]


def test_a_hot_term_counts_at_one_of_the_matchers_that_a_post_reaches(tmp_path):
    """Matcher 1 has `rain` and ten of `w5`, so 0 and 2 add nothing with `rain`; 3 adds two of `w7`."""
    matchers_of = {"rain": [0, 1, 2], "w5": [1], "w7": [3], "w2": [2]}
    index = build_index(tmp_path, ["rain"] * 50 + ["w5"] * 10 + ["w7"] * 2 + ["w2"], matchers_of)
    texts = [f"rain w5 w7 w2 unseen{number}" for number in range(20)]
    assert {frozenset(reached) for reached in route(index, texts)} >= {frozenset({1, 2, 3}), frozenset({0, 1, 2, 3})}
    assert all(reached == {1, 3} for reached in route(index, texts, "subscription", 2.0))


def test_subscriptions_count_at_the_matcher_that_has_them(tmp_path):
    """Matchers 0 and 1 share the subscriptions of one anchor: one has more than the 20 of matcher 2, one has fewer."""
    queries = [*["w1 w3"] * 43, *["w3"] * 50, *["w5"] * 22]
    index = build_index(tmp_path, queries, {"w1": [0], "w3": [1], "w5": [2]}, "random")
    anchor = int(index.vocabulary.find_ids([b"w1"])[0])
    counts = [
        sum(int(view.anchors.counts[view.anchors.terms == anchor].sum()) for view in index.open_shard(matcher))
        for matcher in (0, 1)
    ]
    assert sum(counts) == 43
    assert counts[0] < 22
    assert route(index, ["w1 w3 w5"], "subscription", 2.0) == [{1, 2}]


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Index:
    """An index in which w0 is hot, and pairs of words are placed at random."""
    matchers_of = {word: [number % 7] for number, word in enumerate(WORDS)}
    pairs = [f"{WORDS[n % 12]} {WORDS[n * 5 % 11]}" for n in range(60)]
    hot = {"w0": [1, 3, 5, 7]}
    return build_index(tmp_path_factory.mktemp("shed"), [*WORDS, *pairs], matchers_of | hot, "random")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("text", ["w4 w1 w9", "w4 w4 w4 w4 w1 w9", "w4 w1 w4 w4 w9 w4"])
def test_a_repeated_word_votes_once(tmp_path, policy, text):
    index = build_index(tmp_path, ["w1", "w4", "w9"], {"w4": [0], "w1": [1], "w9": [1]})
    assert route(index, [text], policy, 1.0) == [{1}]


@settings(deadline=None)
@given(
    words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=8, unique=True),
    repeated=st.lists(st.integers(0, 7), max_size=8),
    policy=st.sampled_from(POLICIES),
    limit=st.sampled_from([1.0, 2.0, 3.0]),
)
def test_repeating_words_changes_neither_targets_nor_counts(index, words, repeated, policy, limit):
    words = [word for word in words if word != "w0"]  # its split depends on the text
    again = [*words, *(words[number % len(words)] for number in repeated if words)]
    results = []
    for text in (" ".join(words), " ".join(again)):
        batch = index.analyzer().analyze(pa.array([text]))
        routed = Router(index).route(batch, np.full((1, 2), np.nan), ShedDecision(policy, limit))
        reached = [part.matcher for part in routed.batches]
        results.append((reached, *(values.tolist() for values in routed.shed.by_anchor())))
    assert results[0] == results[1]
