"""Workloads of S³-TM: posts as term ids in folds, and kinds of subscriptions (section 6.1). Subscriptions are distinct.

*Tweet-based*: all terms of a random post. *Topic-based*: LDA finds topics; a subscription has one to five terms of one
topic, their number follows Zipf's law. The paper takes five terms of each of 100 topics, which gives 3,100 different
subscriptions; here a topic has as many terms as the subscriptions need. *Repeated topic*: as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from math import comb
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.balance.corpus import Corpus
from tidings.balance.salb_work_aware import SubscriptionSample, fit_work_aware
from tidings.balance.word_registry import fit_word_plan
from tidings.index.builder import number_by_frequency
from tidings.plan.words import WordPlan
from tidings.query.conjunctions import Conjunctions
from tidings.ragged import take_rows
from tidings.text.analyzer import AnalyzedBatch
from tidings_lab.datasets import Posts, posts_of
from tidings_lab.sample_queries import NumberedPosts, make_conjunctions

KINDS = ("tweet", "topic", "repeated topic")
TOPIC_WORDS = 5
_FEWEST_DRAWN = 1_000
_DRAWN = 1_000_000  # rows at a time, to limit the memory for ten million
_KEPT_TERMS = 0.75  # of a post, where there are more subscriptions than posts
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
    """Posts to learn from (`known`) and others to measure (`unseen`). Subscriptions come from the `pool`.

    The pool is all posts that are not in the part that is measured; the known posts are a sample of it.
    """

    number: int
    known: NumberedPosts
    unseen: NumberedPosts
    posts: NumberedPosts
    pool_rows: NDArray[np.intp]

    def pool(self) -> NumberedPosts:
        return take_posts(self.posts, self.pool_rows)


def make_folds(posts: NumberedPosts, folds: int, run: int, learned: int, tested: int, seed: int) -> list[Fold]:
    """Return the first `run` of `folds` folds: one part to measure, a sample of the others to learn from."""
    order = np.random.default_rng([seed, 10]).permutation(len(posts))
    parts = np.array_split(order, folds)
    result = []
    for number in range(run):
        others = np.concatenate([part for at, part in enumerate(parts) if at != number])
        known = np.random.default_rng([seed, 11, number]).permutation(others)[:learned]
        unseen = np.sort(parts[number][:tested])
        parts_taken = (take_posts(posts, np.sort(known)), take_posts(posts, unseen))
        result.append(Fold(number, *parts_taken, posts, np.sort(others)))
    return result


@dataclass(frozen=True, slots=True)
class NumberedSubscriptions:
    """Subscriptions with term ids as in an index; `numbers` maps the term ids of posts to them."""

    conjunctions: Conjunctions
    terms: Sequence[bytes]
    numbers: NDArray[np.uint32]

    @classmethod
    def of(
        cls, conjunctions: Conjunctions, terms: Sequence[bytes], counted: NumberedPosts | None = None
    ) -> NumberedSubscriptions:
        """Number terms like an index: by the `counted` posts that contain them, then by conjunctions."""
        posts = None if counted is None else np.bincount(counted.words, minlength=len(terms) + 1)[1:]
        numbers, kept = number_by_frequency(conjunctions, len(terms), posts)
        ordered = conjunctions.order_terms(numbers[conjunctions.terms]).renumber_terms(numbers)
        return cls(ordered, [terms[number - 1] for number in kept.tolist()], numbers)

    def __len__(self) -> int:
        return len(self.conjunctions)

    def first(self, count: int) -> NumberedSubscriptions:
        """Return the first `count` subscriptions, with their terms in the same order."""
        part = self.conjunctions.select(np.arange(count))
        used = np.unique(part.terms)
        ranks = np.zeros(len(self.terms) + 1, np.uint32)
        ranks[used] = np.arange(1, len(used) + 1)
        return NumberedSubscriptions(part.renumber_terms(ranks), self.text_of(used), ranks[self.numbers])

    def count_distinct(self) -> int:
        """Return the number of subscriptions with different sets of terms."""
        return len(np.unique(hash_term_sets(self.conjunctions.terms, self.conjunctions.starts)))

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


def draw_tweet_based(
    posts: NumberedPosts, count: int, seed: int, counted: NumberedPosts | None = None
) -> NumberedSubscriptions:
    """Draw `count` distinct subscriptions, each with all terms of a random post; anchors follow the `counted` posts.

    If there are fewer distinct posts, the others have a part of the terms of a random post each.
    """
    rng = np.random.default_rng([seed, 20])
    drawn = _DistinctRows(count)
    for rows in np.array_split(rng.permutation(np.flatnonzero(np.diff(posts.starts))), max(1, len(posts) // _DRAWN)):
        drawn.add(take_posts(posts, rows))
    while drawn.missing and drawn.is_growing:
        part = take_posts(posts, rng.integers(0, len(posts), drawn.next_size))
        kept = rng.random(len(part.words)) < _KEPT_TERMS
        starts = np.concatenate([[0], np.cumsum(kept)])[part.starts]
        drawn.add(NumberedPosts(part.words[kept], starts.astype(np.int64), posts.terms))
    return NumberedSubscriptions.of(drawn.conjunctions(), posts.terms, counted or posts)


def draw_topic_based(
    topics: NDArray[np.uint32], posts: NumberedPosts, count: int, seed: int, distinct: bool = True
) -> NumberedSubscriptions:
    """Draw `count` subscriptions of one to five terms of one topic each; `topics` has one row of terms per topic.

    Short ones run out first, if they must be `distinct`; then the others are longer than by Zipf's law.
    """
    rng = np.random.default_rng([seed, 21])
    longest = min(TOPIC_WORDS, topics.shape[1])
    probabilities = np.arange(1, longest + 1) ** -_LENGTH_SKEW
    drawn = _DistinctRows(count, distinct)
    while drawn.missing and drawn.is_growing:
        size = drawn.next_size if distinct else min(_DRAWN, drawn.missing)
        lengths = rng.choice(longest, size, p=probabilities / probabilities.sum()) + 1
        shuffled = np.argsort(rng.random((size, topics.shape[1])), axis=1)
        words = np.take_along_axis(topics[rng.integers(0, len(topics), size)], shuffled, axis=1)
        kept = words[np.arange(topics.shape[1]) < lengths[:, None]]
        drawn.add(NumberedPosts(kept, np.concatenate([[0], np.cumsum(lengths)]), []))
    return NumberedSubscriptions.of(drawn.conjunctions(), posts.terms, posts)


class _DistinctRows:
    """Collects rows of terms until there are `count`, each set of terms once (or as often as it comes)."""

    def __init__(self, count: int, distinct: bool = True) -> None:
        self.missing = count
        self.is_growing = True
        self._distinct = distinct
        self._seen = np.zeros(0, np.uint64)  # sorted hashes
        self._parts: list[NumberedPosts] = []

    @property
    def next_size(self) -> int:
        """Return how many rows to draw: some are equal, and a draw without any new row ends the search."""
        return min(_DRAWN, max(_FEWEST_DRAWN, 2 * self.missing))

    def add(self, rows: NumberedPosts) -> None:
        chosen = np.flatnonzero(np.diff(rows.starts))
        if self._distinct:
            hashes = hash_term_sets(rows.words, rows.starts)[chosen]
            unseen = np.flatnonzero(~_is_in(hashes, self._seen))
            first = np.sort(np.unique(hashes[unseen], return_index=True)[1])
            chosen = chosen[unseen[first]]
        chosen = chosen[: self.missing]
        self.is_growing = bool(len(chosen)) or not self._parts
        self.missing -= len(chosen)
        self._parts.append(take_posts(rows, chosen))
        if self._distinct:
            self._seen = np.sort(np.concatenate([self._seen, hash_term_sets(rows.words, rows.starts)[chosen]]))

    def conjunctions(self) -> Conjunctions:
        words = np.concatenate([part.words for part in self._parts])
        lengths = np.concatenate([np.diff(part.starts) for part in self._parts])
        return make_conjunctions(words, np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64))


def hash_term_sets(words: NDArray[np.uint32], starts: NDArray[np.integer]) -> NDArray[np.uint64]:
    """Return 64 bits per row that depend on its set of terms only. Two of ten million rows hardly ever collide."""
    mixed = (words.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(29)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])[starts.astype(np.int64)]
    hashes: NDArray[np.uint64] = np.diff(sums)  # modulo 2**64
    return hashes


def _is_in(values: NDArray[np.uint64], ordered: NDArray[np.uint64]) -> NDArray[np.bool_]:
    if not len(ordered):
        return np.zeros(len(values), bool)
    found: NDArray[np.bool_] = ordered[np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)] == values
    return found


def words_per_topic(subscriptions: int, topics: int) -> int:
    """Return how many terms of each topic give four times as many distinct subscriptions as are drawn; at least 5."""
    words = TOPIC_WORDS
    while topics * sum(comb(words, length) for length in range(1, TOPIC_WORDS + 1)) < 4 * subscriptions:
        words += 1
    return words


def find_topics(
    posts: NumberedPosts, count: int, iterations: int, seed: int, words: int = TOPIC_WORDS
) -> NDArray[np.uint32]:
    """Return the most probable `words` terms of each of `count` topics, found by LDA with α = β = 0.1."""
    import tomotopy

    model = tomotopy.LDAModel(k=count, alpha=0.1, eta=0.1, seed=seed + 1)  # seed 0 would be random
    for start, end in zip(posts.starts[:-1].tolist(), posts.starts[1:].tolist(), strict=True):
        if end > start:
            model.add_doc([str(number) for number in posts.words[start:end].tolist()])
    model.train(iterations, workers=1, parallel=tomotopy.ParallelScheme.NONE)
    topics = [[int(word) for word, _ in model.get_topic_words(topic, top_n=words)] for topic in range(count)]
    return np.array(topics, np.uint32)


@dataclass
class Workload:
    """Subscriptions of one kind and the posts of one fold; `about` are the columns that identify it in results."""

    about: dict[str, Any]
    fold: Fold
    draw: Callable[[], NumberedSubscriptions]

    @cached_property
    def subscribed(self) -> NumberedSubscriptions:
        """The subscriptions; drawn when they are needed, because a finished step does not need them."""
        subscribed = self.draw()
        self.about["distinct"] = subscribed.count_distinct()
        return subscribed

    def __str__(self) -> str:
        about = self.about
        return f"{about['dataset']}, fold {about['fold'] + 1}, {about['subscriptions']:,} {about['kind']}-based"


def iter_workloads(posts: Posts, parameters: Mapping[str, Any], seed: int) -> Iterator[Workload]:
    """Yield every data set, fold, number and kind of subscriptions."""
    sizes = (parameters["folds"], parameters["folds_run"], parameters["learned"], parameters["tested"])
    counts = parameters["subscriptions"]
    for name in parameters.get("datasets", [posts.source]):
        numbered = _judged(number_posts(posts_of(posts, name, seed).texts), parameters.get("judged_from", 0.0))
        most = max(counts) if isinstance(counts, list) else counts
        topics = cache(partial(_find_topics_of, numbered, parameters, seed, most))
        for fold in make_folds(numbered, *sizes, seed):
            for count in counts if isinstance(counts, list) else [counts]:
                for kind in parameters["kinds"]:
                    draw = partial(_draw, kind, fold, topics, count, parameters, seed)
                    about = {"dataset": name, "fold": fold.number, "kind": kind, "subscriptions": count}
                    yield Workload(about, fold, draw)


def _judged(posts: NumberedPosts, start: float) -> NumberedPosts:
    """Return the posts after this share: earlier ones are for choosing constants, and judge nothing."""
    return take_posts(posts, np.arange(int(start * len(posts)), len(posts)))


def _draw(
    kind: str, fold: Fold, topics: Callable[[], Any], count: int, parameters: Mapping[str, Any], seed: int
) -> NumberedSubscriptions:
    if kind == "tweet":
        return draw_tweet_based(fold.pool(), count, seed + fold.number, fold.known)
    is_distinct = kind == "topic"
    words = words_per_topic(count, parameters["topics"]) if is_distinct else TOPIC_WORDS
    return draw_topic_based(topics()[:, :words], fold.known, count, seed + fold.number, is_distinct)


def _find_topics_of(posts: NumberedPosts, parameters: Mapping[str, Any], seed: int, most: int) -> NDArray[np.uint32]:
    """Return topics with enough terms for the largest number of subscriptions."""
    words = words_per_topic(most, parameters["topics"])
    rows = np.random.default_rng([seed, 30]).permutation(len(posts))[: parameters["topics_from"]]
    return find_topics(take_posts(posts, rows), parameters["topics"], parameters["iterations"], seed, words)
