"""Workloads of S³-TM: posts as term ids in folds, and two kinds of subscriptions (section 6.1).

*Tweet-based*: all terms of a random post. *Topic-based*: LDA finds topics of five terms; a subscription has one to five
terms of one topic, their number follows Zipf's law.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.balance.corpus import Corpus
from tidings.balance.salb_work_aware import SubscriptionSample, fit_work_aware
from tidings.balance.word_registry import fit_word_plan
from tidings.plan.words import WordPlan
from tidings.query.conjunctions import Conjunctions
from tidings.ragged import take_rows
from tidings.text.analyzer import AnalyzedBatch
from tidings_lab.sample_queries import NumberedPosts, make_conjunctions, number_by_frequency

KINDS = ("tweet", "topic")
TOPIC_WORDS = 5
_LENGTH_SKEW = 0.5  # of Zipf's law for the number of terms
_MARKS = {b"rt", b"qt"}  # prefixes of reposts and quotes, in 30 % of the posts; not content


def number_posts(texts: pa.Array) -> NumberedPosts:
    """Return posts as term ids, without stop words, tags and the prefixes of reposts."""
    whole = NumberedPosts.of(texts)
    is_word = np.array([True, *(term not in _MARKS for term in whole.terms)], bool)
    kept = np.concatenate([[0], np.cumsum(is_word[whole.words])])[whole.starts]
    return NumberedPosts(whole.words[is_word[whole.words]], kept.astype(np.int64), whole.terms)


def take_posts(posts: NumberedPosts, rows: NDArray[np.integer]) -> NumberedPosts:
    words, starts = take_rows(posts.words, posts.starts[:-1][rows], np.diff(posts.starts)[rows])
    return NumberedPosts(words, starts.astype(np.int64), posts.terms)


def corpus_of_all_terms(posts: NumberedPosts) -> Corpus:
    """Return a corpus in which every term counts as subscribed."""
    starts = posts.starts.astype(np.uint32)
    bounds = np.ascontiguousarray(np.column_stack([starts[:-1], starts[1:]]))
    return Corpus.from_analyzed([AnalyzedBatch(posts.words, bounds)], posts.terms)


@dataclass(frozen=True, slots=True)
class Fold:
    """Posts to learn from and to draw subscriptions from (`known`), and others to measure (`unseen`)."""

    number: int
    known: NumberedPosts
    unseen: NumberedPosts


def make_folds(posts: NumberedPosts, folds: int, run: int, learned: int, tested: int, seed: int) -> list[Fold]:
    """Return the first `run` of `folds` folds: one part to measure, a sample of the others to learn from."""
    order = np.random.default_rng([seed, 10]).permutation(len(posts))
    parts = np.array_split(order, folds)
    result = []
    for number in range(run):
        others = np.concatenate([part for at, part in enumerate(parts) if at != number])
        known = np.random.default_rng([seed, 11, number]).permutation(others)[:learned]
        unseen = np.sort(parts[number][:tested])
        result.append(Fold(number, take_posts(posts, np.sort(known)), take_posts(posts, unseen)))
    return result


@dataclass(frozen=True, slots=True)
class NumberedSubscriptions:
    """Subscriptions with term ids as in an index; `numbers` maps the term ids of posts to them."""

    conjunctions: Conjunctions
    terms: Sequence[bytes]
    numbers: NDArray[np.uint32]

    @classmethod
    def of(cls, conjunctions: Conjunctions, terms: Sequence[bytes]) -> NumberedSubscriptions:
        numbers, _ = number_by_frequency(conjunctions, len(terms))
        used = np.flatnonzero(numbers)
        ordered = used[np.argsort(numbers[used])]
        return cls(conjunctions.renumber_terms(numbers), [terms[number - 1] for number in ordered.tolist()], numbers)

    def __len__(self) -> int:
        return len(self.conjunctions)

    def analyze(self, posts: NumberedPosts) -> AnalyzedBatch:
        """Return posts as matchers get them: with the subscribed terms only."""
        return posts.to_batch(self.numbers)

    def corpus(self, posts: NumberedPosts) -> Corpus:
        """Return the corpus that a plan is learned from: the subscribed terms of posts."""
        return Corpus.from_analyzed([self.analyze(posts)], self.terms)

    def text_of(self, numbers: NDArray[np.uint32]) -> Sequence[bytes]:
        return [self.terms[number - 1] for number in numbers.tolist()]


def fit_plan(
    algorithm: str, subscribed: NumberedSubscriptions, known: NumberedPosts, matchers: int, split: bool = True
) -> WordPlan:
    """Learn a plan like the product: from the subscribed terms of posts; `salb+` uses the subscriptions too."""
    if algorithm != "salb+":
        return fit_word_plan(algorithm, subscribed.corpus(known), matchers, split)
    asked = SubscriptionSample(subscribed.terms, subscribed.conjunctions, subscribed.analyze(known))
    return fit_work_aware(asked, matchers, split)


def draw_tweet_based(posts: NumberedPosts, count: int, seed: int) -> NumberedSubscriptions:
    """Draw `count` random posts as subscriptions with all their terms; empty posts are skipped."""
    non_empty = np.flatnonzero(np.diff(posts.starts))
    rng = np.random.default_rng([seed, 20])
    rows = rng.choice(non_empty, count, replace=count > len(non_empty))
    drawn = take_posts(posts, rows)
    return NumberedSubscriptions.of(make_conjunctions(drawn.words, drawn.starts.astype(np.uint64)), posts.terms)


def draw_topic_based(
    topics: NDArray[np.uint32], terms: Sequence[bytes], count: int, seed: int
) -> NumberedSubscriptions:
    """Draw `count` subscriptions with terms of one topic each; `topics` has one row of terms per topic."""
    rng = np.random.default_rng([seed, 21])
    probabilities = np.arange(1, topics.shape[1] + 1) ** -_LENGTH_SKEW
    lengths = rng.choice(topics.shape[1], count, p=probabilities / probabilities.sum()) + 1
    shuffled = np.argsort(rng.random((count, topics.shape[1])), axis=1)
    words = np.take_along_axis(topics[rng.integers(0, len(topics), count)], shuffled, axis=1)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64)
    return NumberedSubscriptions.of(
        make_conjunctions(words[np.arange(topics.shape[1]) < lengths[:, None]], starts), terms
    )


def find_topics(posts: NumberedPosts, count: int, iterations: int, seed: int) -> NDArray[np.uint32]:
    """Return the five terms of each of `count` topics, found by LDA with α = β = 0.1."""
    import tomotopy

    model = tomotopy.LDAModel(k=count, alpha=0.1, eta=0.1, seed=seed + 1)  # seed 0 would be random
    for start, end in zip(posts.starts[:-1].tolist(), posts.starts[1:].tolist(), strict=True):
        if end > start:
            model.add_doc([str(number) for number in posts.words[start:end].tolist()])
    model.train(iterations, workers=1, parallel=tomotopy.ParallelScheme.NONE)
    topics = [[int(word) for word, _ in model.get_topic_words(topic, top_n=TOPIC_WORDS)] for topic in range(count)]
    return np.array(topics, np.uint32)


def iter_workloads(
    posts: NumberedPosts, parameters: Mapping[str, Any], seed: int
) -> Iterator[tuple[Fold, str, NumberedSubscriptions]]:
    """Yield every fold with every kind of subscriptions."""
    sizes = (parameters["folds"], parameters["folds_run"], parameters["learned"], parameters["tested"])
    topics: Any = None
    for fold in make_folds(posts, *sizes, seed):
        for kind in parameters["kinds"]:
            if kind == "tweet":
                yield fold, kind, draw_tweet_based(fold.known, parameters["subscriptions"], seed + fold.number)
                continue
            if topics is None:
                rows = np.random.default_rng([seed, 30]).permutation(len(posts))[: parameters["topics_from"]]
                topics = find_topics(take_posts(posts, rows), parameters["topics"], parameters["iterations"], seed)
            yield fold, kind, draw_topic_based(topics, posts.terms, parameters["subscriptions"], seed + fold.number)
