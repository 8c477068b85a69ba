"""What the experiments run on: posts as word numbers dealt into folds, and S³-TM's two kinds of subscriptions.

*Tweet-based*: every word of a random post. *Topic-based*: LDA finds topics of five words; a subscription takes one to
five words of one topic, how many by Zipf's law (S³-TM 6.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.balance.corpus import Corpus
from tidings.balance.salb_work_aware import Asked, fit_asked
from tidings.balance.word_registry import fit
from tidings.plan.words import WordPlan
from tidings.query.conjunctions import Conjunctions
from tidings.ragged import take_rows
from tidings.text.analyzer import Received
from tidings_lab.sample_queries import NumberedPosts, by_frequency, plain_conjunctions

KINDS = ("tweet", "topic")
TOPIC_WORDS = 5
_LENGTH_SKEW = 0.5  # of Zipf's law for the number of words
_MARKS = {b"rt", b"qt"}  # what programs put before posts that repeat or quote others: in 30 % of them, and no words


def numbered_posts(texts: pa.Array) -> NumberedPosts:
    """Posts as the words people wrote: without stop words, tags and the marks of repeated posts."""
    whole = NumberedPosts.of(texts)
    is_word = np.array([True, *(term not in _MARKS for term in whole.terms)], bool)
    kept = np.concatenate([[0], np.cumsum(is_word[whole.words])])[whole.starts]
    return NumberedPosts(whole.words[is_word[whole.words]], kept.astype(np.int64), whole.terms)


def take_posts(posts: NumberedPosts, rows: NDArray[np.integer]) -> NumberedPosts:
    words, starts = take_rows(posts.words, posts.starts[:-1][rows], np.diff(posts.starts)[rows])
    return NumberedPosts(words, starts.astype(np.int64), posts.terms)


def all_words(posts: NumberedPosts) -> Corpus:
    """What a plan is learned from where every word counts as subscribed to."""
    starts = posts.starts.astype(np.uint32)
    bounds = np.ascontiguousarray(np.column_stack([starts[:-1], starts[1:]]))
    return Corpus.of_numbers([Received(posts.words, bounds)], posts.terms)


@dataclass(frozen=True, slots=True)
class Fold:
    """Posts to learn from and to draw subscriptions from, and others to measure with."""

    number: int
    known: NumberedPosts
    unseen: NumberedPosts


def deal(posts: NumberedPosts, folds: int, run: int, learned: int, tested: int, seed: int) -> list[Fold]:
    """The first `run` of `folds` folds: each part in turn is measured with, a sample of the others is learned from."""
    order = np.random.default_rng([seed, 10]).permutation(len(posts))
    parts = np.array_split(order, folds)
    made = []
    for number in range(run):
        others = np.concatenate([part for at, part in enumerate(parts) if at != number])
        known = np.random.default_rng([seed, 11, number]).permutation(others)[:learned]
        unseen = np.sort(parts[number][:tested])
        made.append(Fold(number, take_posts(posts, np.sort(known)), take_posts(posts, unseen)))
    return made


@dataclass(frozen=True, slots=True)
class Subscribed:
    """Subscriptions with their words numbered as an index numbers them; `numbers` leads there from those of posts."""

    conjunctions: Conjunctions
    terms: Sequence[bytes]
    numbers: NDArray[np.uint32]

    @classmethod
    def of(cls, conjunctions: Conjunctions, terms: Sequence[bytes]) -> Subscribed:
        numbers, _ = by_frequency(conjunctions, len(terms))
        used = np.flatnonzero(numbers)
        ordered = used[np.argsort(numbers[used])]
        return cls(conjunctions.renumbered(numbers), [terms[number - 1] for number in ordered.tolist()], numbers)

    def __len__(self) -> int:
        return len(self.conjunctions)

    def received(self, posts: NumberedPosts) -> Received:
        """Posts as matchers get them: with the words somebody subscribed to."""
        return posts.received(self.numbers)

    def corpus(self, posts: NumberedPosts) -> Corpus:
        """What a plan is learned from: the subscribed words of posts."""
        return Corpus.of_numbers([self.received(posts)], self.terms)

    def text_of(self, numbers: NDArray[np.uint32]) -> Sequence[bytes]:
        return [self.terms[number - 1] for number in numbers.tolist()]


def fitted(algorithm: str, subscribed: Subscribed, known: NumberedPosts, matchers: int, split: bool = True) -> WordPlan:
    """A plan as the product learns it: from the subscribed words of posts; `salb+` looks at the subscriptions too."""
    if algorithm != "salb+":
        return fit(algorithm, subscribed.corpus(known), matchers, split)
    asked = Asked(subscribed.terms, subscribed.conjunctions, subscribed.received(known))
    return fit_asked(asked, matchers, split)


def tweet_based(posts: NumberedPosts, count: int, seed: int) -> Subscribed:
    """So many random posts as subscriptions, every word of each; posts that say nothing are passed over."""
    speaking = np.flatnonzero(np.diff(posts.starts))
    rng = np.random.default_rng([seed, 20])
    rows = rng.choice(speaking, count, replace=count > len(speaking))
    drawn = take_posts(posts, rows)
    return Subscribed.of(plain_conjunctions(drawn.words, drawn.starts.astype(np.uint64)), posts.terms)


def topic_based(topics: NDArray[np.uint32], terms: Sequence[bytes], count: int, seed: int) -> Subscribed:
    """So many subscriptions, each of some words of one topic; `topics` has a row of words for each."""
    rng = np.random.default_rng([seed, 21])
    chances = np.arange(1, topics.shape[1] + 1) ** -_LENGTH_SKEW
    lengths = rng.choice(topics.shape[1], count, p=chances / chances.sum()) + 1
    shuffled = np.argsort(rng.random((count, topics.shape[1])), axis=1)
    words = np.take_along_axis(topics[rng.integers(0, len(topics), count)], shuffled, axis=1)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64)
    return Subscribed.of(plain_conjunctions(words[np.arange(topics.shape[1]) < lengths[:, None]], starts), terms)


def find_topics(posts: NumberedPosts, count: int, iterations: int, seed: int) -> NDArray[np.uint32]:
    """The five words of each of so many topics, by LDA with α = β = 0.1."""
    import tomotopy

    model = tomotopy.LDAModel(k=count, alpha=0.1, eta=0.1, seed=seed + 1)  # 0 would mean a seed of its own choice
    for start, end in zip(posts.starts[:-1].tolist(), posts.starts[1:].tolist(), strict=True):
        if end > start:
            model.add_doc([str(number) for number in posts.words[start:end].tolist()])
    model.train(iterations, workers=1, parallel=tomotopy.ParallelScheme.NONE)
    found = [[int(word) for word, _ in model.get_topic_words(topic, top_n=TOPIC_WORDS)] for topic in range(count)]
    return np.array(found, np.uint32)


def workloads(posts: NumberedPosts, parameters: Mapping[str, Any], seed: int) -> Iterator[tuple[Fold, str, Subscribed]]:
    """Every fold with every kind of subscriptions."""
    sizes = (parameters["folds"], parameters["folds_run"], parameters["learned"], parameters["tested"])
    topics: Any = None
    for fold in deal(posts, *sizes, seed):
        for kind in parameters["kinds"]:
            if kind == "tweet":
                yield fold, kind, tweet_based(fold.known, parameters["subscriptions"], seed + fold.number)
                continue
            if topics is None:
                rows = np.random.default_rng([seed, 30]).permutation(len(posts))[: parameters["topics_from"]]
                topics = find_topics(take_posts(posts, rows), parameters["topics"], parameters["iterations"], seed)
            yield fold, kind, topic_based(topics, posts.terms, parameters["subscriptions"], seed + fold.number)
