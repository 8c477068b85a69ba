"""`salb+` with knowledge of the subscriptions, not only of the posts.

A post is sent to a matcher because of the anchor of a subscription (`query/anchors.py`), so only anchors cause load.
The load of an anchor depends less on the number of its posts than on the work per post: entries are checked and
matches are written. So the plan is learned for anchors only, each with the work that matching a sample of posts took.
A term is hot if its posts and its work together are too much for one matcher.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.balance.corpus import Corpus, analyze_texts, concat_batches, count_posts_by_term
from tidings.balance.salb import salb_plus
from tidings.balance.split_corpus import count_splits, split_hot_terms
from tidings.balance.word_registry import DEFAULT_PARTITIONER, fit_word_plan
from tidings.index.builder import number_by_frequency
from tidings.index.segment import build_segment
from tidings.matching.segment_matcher import SegmentMatcher, missing_positions
from tidings.plan.hot_splits import HotSplits
from tidings.plan.words import LearnedPlan, WordPlan, hash_to_matchers
from tidings.query.anchors import anchor_terms
from tidings.query.conjunctions import Conjunctions
from tidings.text.analyzer import AnalyzedBatch
from tidings.text.vocabulary import Vocabulary

# In units of posts. On real tweets, a post with its terms costs a matcher 44 ns, an entry 2 to 7, a match 1 to 7.
_ENTRY_COST, _MATCH_COST = 0.15, 0.15
_BATCH_POSTS = 2_000
_MAX_MATCHES = 20_000_000


class MeasuredWork(NamedTuple):
    """The posts per term, and of every conjunction its share of an entry (equal ones share one) and its matches."""

    posts: NDArray[np.int64]
    entries: NDArray[np.float64]
    matches: NDArray[np.float64]

    def sum_by_anchor(self, anchors: NDArray[np.uint32]) -> NDArray[np.float64]:
        """Return the work per term, in units of posts, given the anchor of every conjunction."""
        entries, matches = (np.bincount(anchors, of, len(self.posts)) for of in (self.entries, self.matches))
        work: NDArray[np.float64] = _ENTRY_COST * self.posts * entries + _MATCH_COST * matches
        return work


@dataclass(frozen=True, slots=True)
class SubscriptionSample:
    """Conjunctions and posts whose terms are numbered from 1 by frequency: term n is `terms[n - 1]`.

    The posts must follow each other without gaps.
    """

    terms: Sequence[bytes]
    conjunctions: Conjunctions
    posts: AnalyzedBatch

    @classmethod
    def build(cls, terms: Sequence[bytes], conjunctions: Conjunctions, posts: AnalyzedBatch) -> SubscriptionSample:
        """Build a sample from conjunctions and posts whose terms are numbered in the order of `terms`."""
        numbers, used = number_by_frequency(conjunctions, len(terms))
        renumbered = AnalyzedBatch(numbers[posts.terms], posts.bounds)
        return cls([terms[old - 1] for old in used.tolist()], conjunctions.renumber_terms(numbers), renumbered)

    def measure_work(self) -> MeasuredWork:
        """Match the posts (a random part if there are very many matches), and count."""
        separate = replace(self.conjunctions, subscription=np.arange(len(self.conjunctions), dtype=np.uint32))
        segment = build_segment(separate, pa.array(np.arange(len(separate))))
        matcher, matches, seen = SegmentMatcher(segment, len(self.terms)), np.zeros(len(separate)), 0
        bounds = self.posts.bounds[np.random.default_rng(0).permutation(len(self.posts))]  # from all times equally
        while seen < len(bounds) and matches.sum() < _MAX_MATCHES:
            batch = AnalyzedBatch(self.posts.terms, bounds[seen : seen + _BATCH_POSTS])
            hits = matcher.match(batch, missing_positions(len(batch)))
            matches += np.bincount(hits.subscriptions, minlength=len(separate))
            seen += len(batch)
        entries = np.zeros(len(separate))
        equal = np.diff(segment.subscriber_start)[: segment.anchor_start[-1]]  # conjunctions with a region come later
        entries[segment.subscribers[: equal.sum()]] = np.repeat(1 / np.maximum(1, equal), equal)
        posts = count_posts_by_term(self.posts, len(self.terms))
        posts[0] = 0
        return MeasuredWork(posts, entries, matches * (len(self.posts) / max(1, seen)))


def fit_texts(
    name: str,
    texts: pa.Array,
    terms: Sequence[bytes] | None,
    conjunctions: Conjunctions | None,
    matchers: int,
    split_hot: bool = True,
    seed: int = 0,
) -> WordPlan:
    """Fit a plan by the name of its algorithm to posts and subscribed terms (None: all terms).

    `salb+` uses the conjunctions too. Everything that learns a word plan calls this function.
    """
    vocabulary = None if terms is None else Vocabulary.build(terms)
    if name != DEFAULT_PARTITIONER or conjunctions is None or terms is None or vocabulary is None:
        return fit_word_plan(name, Corpus.from_texts(texts, vocabulary), matchers, split_hot, seed)
    posts = concat_batches(analyze_texts(texts, vocabulary))
    return fit_work_aware(SubscriptionSample.build(terms, conjunctions, posts), matchers, split_hot, seed)


def fit_work_aware(sample: SubscriptionSample, matchers: int, split_hot: bool = True, seed: int = 0) -> LearnedPlan:
    """Fit a plan to these subscriptions. It contains the anchors, and hot terms that are not anchors."""
    is_hot, is_anchor, work, counts = _fixpoint(sample, matchers, split_hot)
    corpus = build_anchor_corpus(sample, is_anchor)
    numbers = Vocabulary.build(sample.terms).find_ids(corpus.terms).astype(np.int64)
    splits = counts[numbers]
    split_corpus, starts = split_hot_terms(corpus, splits)
    chosen = salb_plus(split_corpus, matchers, np.repeat(work[numbers] // splits, splits))
    idle = [sample.terms[number - 1] for number in np.flatnonzero(is_hot & ~is_anchor).tolist()]
    vocabulary = Vocabulary.build([*corpus.terms, *idle])
    hot_splits = _add_idle_terms(HotSplits(chosen, starts), idle, matchers)
    return LearnedPlan(DEFAULT_PARTITIONER, matchers, seed, corpus.size, vocabulary, hot_splits)


class _TermLoads(NamedTuple):
    """For every term: whether it is hot, whether it is an anchor, its work, and its number of splits."""

    is_hot: NDArray[np.bool_]
    is_anchor: NDArray[np.bool_]
    work: NDArray[np.int64]
    counts: NDArray[np.int64]


def _fixpoint(sample: SubscriptionSample, matchers: int, split_hot: bool) -> _TermLoads:
    """Find hot terms and anchors, which depend on each other. A hot term stays hot, so this ends."""
    measured = sample.measure_work()
    is_hot = np.zeros(len(sample.terms) + 1, bool)
    while True:
        anchors, is_anchor = mark_anchors(sample, is_hot[1:])
        work = np.where(is_anchor, measured.sum_by_anchor(anchors), 0.0).astype(np.int64)
        loads = np.where(is_anchor, measured.posts + work, 0)
        counts = np.minimum(matchers, count_splits(measured.posts, loads, matchers))
        newly_hot = (counts > 1) & ~is_hot
        if not split_hot or not newly_hot.any():
            return _TermLoads(is_hot, is_anchor, work, np.where(is_hot, np.maximum(counts, 2), 1))
        is_hot |= newly_hot


def mark_anchors(sample: SubscriptionSample, is_hot: NDArray[np.bool_]) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
    """Return the anchor of every conjunction and which terms are anchors, from 0; `is_hot` is in the order of terms."""
    anchors = anchor_terms(sample.conjunctions, np.flatnonzero(is_hot).astype(np.uint32) + np.uint32(1))
    is_anchor = np.bincount(anchors, minlength=len(sample.terms) + 1) > 0
    is_anchor[0] = False
    return anchors, is_anchor


def _add_idle_terms(splits: HotSplits, idle: Sequence[bytes], matchers: int) -> HotSplits:
    """Add hot terms that are not anchors, with two splits each: otherwise the index could make them anchors.

    Their matchers hardly matter: they are used only by later subscriptions that have no other term.
    """
    first = hash_to_matchers(idle, matchers)
    pairs = np.column_stack([first, (first + matchers // 2) % matchers]).astype(np.uint16)
    starts = splits.starts[-1] + np.arange(2, 2 * len(idle) + 1, 2, dtype=np.uint64)
    return HotSplits(np.concatenate([splits.matchers, pairs.ravel()]), np.concatenate([splits.starts, starts]))


def build_anchor_corpus(sample: SubscriptionSample, is_anchor: NDArray[np.bool_]) -> Corpus:
    """Return the posts with their anchors only."""
    keep = is_anchor[sample.posts.terms]
    offsets = np.concatenate([[0], np.cumsum(keep)]).astype(np.uint32)
    return Corpus.from_analyzed([AnalyzedBatch(sample.posts.terms[keep], offsets[sample.posts.bounds])], sample.terms)
