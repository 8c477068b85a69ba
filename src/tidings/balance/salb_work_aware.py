"""A plan by `salb+` that knows the subscriptions, not only the posts.

A post is sent to a matcher for the rarest word of a subscription (`index/lead.py`), so only such words, the *leads*,
are any load at all. And what a lead brings is less the posts that say it than what has to be done for each of them:
entries are looked at, and matches are written. So words are learned that lead, each with the work that a sample of
posts made when it was matched once; a word is hot when posts and work together are too much for one matcher.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.balance.corpus import Corpus, joined, receive_texts
from tidings.balance.salb import salb_plus
from tidings.balance.split_corpus import split
from tidings.balance.word_registry import DEFAULT, fit
from tidings.index.builder import by_frequency
from tidings.index.segment import build_segment
from tidings.matching.segment_matcher import FlatMatcher, no_positions
from tidings.plan.hot_splits import Versions, version_counts
from tidings.plan.words import LearnedPlan, WordPlan, hashed
from tidings.query.anchors import lead_terms
from tidings.query.conjunctions import Conjunctions
from tidings.text.analyzer import Received
from tidings.text.vocabulary import Vocabulary

# In posts: on real tweets a post costs a matcher 44 ns, its words included, an entry 2 to 7, a match 1 to 7.
_ENTRY, _MATCH = 0.15, 0.15
_BATCH = 2_000
_ENOUGH_MATCHES = 20_000_000


@dataclass(frozen=True, slots=True)
class Asked:
    """Conjunctions whose words are numbered by frequency from 1 on, as `terms` are, and posts that say them.

    There must be nothing between the posts.
    """

    terms: Sequence[bytes]
    conjunctions: Conjunctions
    posts: Received

    @classmethod
    def of(cls, terms: Sequence[bytes], conjunctions: Conjunctions, posts: Received) -> Asked:
        """With words numbered in any way; posts alike."""
        numbers, kept = by_frequency(conjunctions, len(terms))
        numbered = Received(numbers[posts.terms], posts.bounds)
        return cls([terms[old - 1] for old in kept.tolist()], conjunctions.renumbered(numbers), numbered)

    def work(self) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """(how many posts say each word, the entries each word leads to, the matches of each conjunction)."""
        alone = replace(self.conjunctions, owner=np.arange(len(self.conjunctions), dtype=np.uint32))
        segment = build_segment(alone, pa.array(np.arange(len(alone))))
        matcher, matches, seen = FlatMatcher(segment, len(self.terms)), np.zeros(len(alone)), 0
        bounds = self.posts.bounds[np.random.default_rng(0).permutation(len(self.posts))]  # of all times alike
        while seen < len(bounds) and matches.sum() < _ENOUGH_MATCHES:
            some = Received(self.posts.terms, bounds[seen : seen + _BATCH])
            hits = matcher.match(some, no_positions(len(some)))
            matches += np.bincount(hits.subscriptions, minlength=len(alone))
            seen += len(some)
        entries = np.zeros(len(self.terms) + 1)
        entries[segment.keys] = np.diff(segment.key_start)
        said = np.bincount(self.posts.terms, minlength=len(self.terms) + 1)
        said[0] = 0
        return said, entries, matches * (len(self.posts) / max(1, seen))


def fit_texts(
    name: str, texts: pa.Array, terms: Sequence[bytes], conjunctions: Conjunctions | None, matchers: int
) -> WordPlan:
    """A plan by the name of its algorithm, from posts and the subscribed words; `salb+` also looks at who asks."""
    words = Vocabulary.build(terms)
    if name != DEFAULT or conjunctions is None:
        return fit(name, Corpus.of_texts(texts, words), matchers)
    return fit_asked(Asked.of(terms, conjunctions, joined(receive_texts(texts, words))), matchers)


def fit_asked(asked: Asked, matchers: int, split_hot: bool = True, seed: int = 0) -> LearnedPlan:
    """The plan for these subscriptions. Of words that lead nowhere it has the hot ones only."""
    is_hot, is_lead, work, counts = _settled(asked, matchers, split_hot)
    corpus = _leading(asked, is_lead)
    numbers = Vocabulary.build(asked.terms).numbers(corpus.terms).astype(np.int64)
    versions = counts[numbers]
    apart, starts = split(corpus, versions)
    chosen = salb_plus(apart, matchers, np.repeat(work[numbers] // versions, versions))
    idle = [asked.terms[number - 1] for number in np.flatnonzero(is_hot & ~is_lead).tolist()]
    words, placed = Vocabulary.build([*corpus.terms, *idle]), _with_idle(Versions(chosen, starts), idle, matchers)
    return LearnedPlan(DEFAULT, matchers, seed, corpus.size, words, placed)


class _Settled(NamedTuple):
    """Of every word whether it is hot, whether it leads, the work it brings, and how many versions it needs."""

    is_hot: NDArray[np.bool_]
    is_lead: NDArray[np.bool_]
    work: NDArray[np.int64]
    counts: NDArray[np.int64]


def _settled(asked: Asked, matchers: int, split_hot: bool) -> _Settled:
    """What is hot decides what leads, and what leads what is hot: what was found to be hot stays it, until all is."""
    said, entries, matches = asked.work()
    is_hot = np.zeros(len(asked.terms) + 1, bool)
    while True:
        leads = lead_terms(asked.conjunctions, np.flatnonzero(is_hot).astype(np.uint32))
        is_lead = np.bincount(leads, minlength=len(is_hot)) > 0
        is_lead[0] = False
        work = _ENTRY * said * entries + _MATCH * np.bincount(leads, matches, len(is_hot))
        work = np.where(is_lead, work, 0.0).astype(np.int64)
        counts = np.minimum(matchers, version_counts(np.where(is_lead, said + work, 0), matchers))
        heated = (counts > 1) & ~is_hot
        if not split_hot or not heated.any():
            return _Settled(is_hot, is_lead, work, np.where(is_hot, np.maximum(counts, 2), 1))
        is_hot |= heated


def _with_idle(versions: Versions, idle: Sequence[bytes], matchers: int) -> Versions:
    """Hot words that lead nowhere are told too, two versions of each: the index would let a word lead that is not hot.

    Where they are hardly matters: for whoever subscribes to nothing else later on.
    """
    there = hashed(idle, matchers)
    pairs = np.column_stack([there, (there + matchers // 2) % matchers]).astype(np.uint16)
    starts = versions.starts[-1] + np.arange(2, 2 * len(idle) + 1, 2, dtype=np.uint64)
    return Versions(np.concatenate([versions.matchers, pairs.ravel()]), np.concatenate([versions.starts, starts]))


def _leading(asked: Asked, is_lead: NDArray[np.bool_]) -> Corpus:
    """The posts with the words that lead."""
    kept = is_lead[asked.posts.terms]
    places = np.concatenate([[0], np.cumsum(kept)]).astype(np.uint32)
    return Corpus.of_numbers([Received(asked.posts.terms[kept], places[asked.posts.bounds])], asked.terms)
