"""The corpus that word plans are learned from: the distinct terms of each post and the posts of each term."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numba import int64, types, uint8, uint32, uint64
from numpy.typing import NDArray

from tidings.jit import kernel, read, write
from tidings.ragged import take_rows
from tidings.text.analyzer import AnalyzedBatch, Analyzer
from tidings.text.reference_analyzer import is_stop
from tidings.text.vocabulary import Interner, TermDictionary, Vocabulary

DEFAULT_SAMPLE_POSTS = 1_000_000
_BATCH_POSTS = 50_000
_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True)
class Corpus:
    """Posts and terms in both directions, as flat arrays. Terms are numbered from 0, the most frequent first."""

    terms: tuple[bytes, ...]
    post_terms: NDArray[np.uint32]  # post p has post_terms[post_starts[p]:post_starts[p + 1]], each once
    post_starts: NDArray[np.uint64]
    term_posts: NDArray[np.uint32]  # term t is in term_posts[term_starts[t]:term_starts[t + 1]], ascending
    term_starts: NDArray[np.uint64]

    @property
    def size(self) -> int:
        """Return the number of posts, including posts without terms."""
        return len(self.post_starts) - 1

    @property
    def frequency(self) -> NDArray[np.int64]:
        """Return the number of posts per term."""
        return np.diff(self.term_starts).astype(np.int64)

    @classmethod
    def from_texts(cls, texts: pa.ChunkedArray | pa.Array, subscribed: Vocabulary | None = None) -> Corpus:
        """Analyze texts. If `subscribed` is given, only its terms count."""
        numbering = subscribed if subscribed is not None else Interner()
        return cls.from_analyzed(analyze_texts(texts, numbering), numbering.terms())

    @classmethod
    def from_analyzed(cls, batches: Sequence[AnalyzedBatch], terms: Sequence[bytes]) -> Corpus:
        """Build a corpus from analyzed posts, whose term n is `terms[n - 1]`.

        0 (unknown term) and stop words do not count: no subscription is anchored at them.
        """
        counts_as_term = np.array([0, *(not is_stop(term.decode("utf-8", "replace")) for term in terms)], np.uint8)
        post_terms, starts = _deduplicate(batches, counts_as_term)
        counts = np.bincount(post_terms, minlength=len(terms) + 1)[1:]
        order = np.argsort(-counts, kind="stable")
        order = order[counts[order] > 0]
        renumbered = np.zeros(len(terms) + 1, np.uint32)
        renumbered[order + 1] = np.arange(len(order), dtype=np.uint32)
        return _build(tuple(terms[number] for number in order.tolist()), renumbered[post_terms], starts)

    def sample(self, count: int, seed: int) -> Corpus:
        """Return `count` random posts in their order, or all posts if there are not more."""
        if count >= self.size:
            return self
        rows = np.sort(np.random.default_rng(seed).choice(self.size, count, replace=False))
        return self.select(rows)

    def select(self, rows: NDArray[np.integer]) -> Corpus:
        """Return a corpus of these posts; its terms are numbered again."""
        bounds = np.column_stack([self.post_starts[:-1][rows], self.post_starts[1:][rows]]).astype(np.uint32)
        return Corpus.from_analyzed([AnalyzedBatch(self.post_terms + np.uint32(1), bounds)], self.terms)

    def find_terms(self, terms: Sequence[bytes]) -> NDArray[np.int64]:
        """Return the number of each term, or -1 if no post has it."""
        number_of = {term: number for number, term in enumerate(self.terms)}
        return np.fromiter((number_of.get(term, -1) for term in terms), np.int64, len(terms))


def build_unnamed_corpus(post_terms: NDArray[np.uint32], starts: NDArray[np.uint64], count: int) -> Corpus:
    """Build a corpus whose terms need no text: it is derived from another corpus."""
    return _build(tuple(b"%d" % number for number in range(count)), post_terms, starts)


def _build(terms: tuple[bytes, ...], post_terms: NDArray[np.uint32], starts: NDArray[np.uint64]) -> Corpus:
    term_starts = np.concatenate([[0], np.cumsum(np.bincount(post_terms, minlength=len(terms)))]).astype(np.uint64)
    term_posts = np.empty(len(post_terms), np.uint32)
    _invert(post_terms, starts, term_starts[:-1].copy(), term_posts)
    return Corpus(terms, post_terms, starts, term_posts, term_starts)


def analyze_texts(texts: pa.ChunkedArray | pa.Array, numbering: TermDictionary) -> list[AnalyzedBatch]:
    """Analyze posts in batches, with terms numbered by `numbering`."""
    analyzer = Analyzer(numbering)
    return [_analyze(analyzer, texts.slice(at, _BATCH_POSTS)) for at in range(0, max(1, len(texts)), _BATCH_POSTS)]


def concat_batches(batches: Sequence[AnalyzedBatch]) -> AnalyzedBatch:
    """Concatenate batches without gaps between posts."""
    parts = [take_rows(b.terms, b.bounds[:, 0], b.bounds[:, 1] - b.bounds[:, 0]) for b in batches]
    lengths = np.concatenate([np.diff(starts) for _, starts in parts])
    ends = np.cumsum(lengths).astype(np.uint32)
    bounds = np.ascontiguousarray(np.column_stack([ends - lengths.astype(np.uint32), ends]))
    return AnalyzedBatch(np.concatenate([terms for terms, _ in parts]), bounds)


def count_posts_by_term(posts: AnalyzedBatch, terms: int) -> NDArray[np.int64]:
    """Return how many posts contain each term, 0 to `terms`; a term that a post repeats counts once."""
    counts, last_post = np.zeros(terms + 1, np.int64), np.zeros(terms + 1, np.uint32)
    _count_posts(posts.terms, posts.bounds, last_post, counts)
    return counts


def _analyze(analyzer: Analyzer, texts: pa.ChunkedArray | pa.Array) -> AnalyzedBatch:
    large = texts.cast(pa.large_string())
    return analyzer.analyze(large.combine_chunks() if isinstance(large, pa.ChunkedArray) else large)


def _deduplicate(
    batches: Sequence[AnalyzedBatch], counts_as_term: NDArray[np.uint8]
) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
    """Return the distinct terms of each post, in order of first occurrence, and where each post starts."""
    post_terms = np.empty(sum(len(batch.terms) for batch in batches), np.uint32)
    starts = np.zeros(sum(map(len, batches)) + 1, np.uint64)
    last_post = np.zeros(len(counts_as_term), np.uint32)
    first = 0
    for batch in batches:
        _append_distinct(batch.terms, batch.bounds, np.uint64(first), counts_as_term, last_post, post_terms, starts)
        first += len(batch)
    return post_terms[: int(starts[-1])].copy(), starts


@kernel(types.void, read(uint32), read(uint32, 2), uint64, read(uint8), write(uint32), write(uint32), write(uint64))
def _append_distinct(terms, bounds, first, counts_as_term, last_post, post_terms, starts):  # type: ignore[no-untyped-def]
    """Append the distinct terms of posts numbered from `first`; `last_post` is the last post of each term."""
    used = starts[first]
    for row in range(uint64(bounds.shape[0])):
        post = uint32(first + row + _ONE)
        for at in range(uint64(bounds[row, uint64(0)]), uint64(bounds[row, _ONE])):
            term = uint64(terms[at])
            if counts_as_term[term] != 0 and last_post[term] != post:
                last_post[term] = post
                post_terms[used] = uint32(term)
                used += _ONE
        starts[uint64(post)] = used


@kernel(types.void, read(uint32), read(uint32, 2), write(uint32), write(int64))
def _count_posts(terms, bounds, last_post, counts):  # type: ignore[no-untyped-def]
    """Count posts per term; `last_post` is the last post of each term, numbered from 1."""
    for row in range(uint64(bounds.shape[0])):
        post = uint32(row + _ONE)
        for at in range(uint64(bounds[row, uint64(0)]), uint64(bounds[row, _ONE])):
            term = uint64(terms[at])
            if last_post[term] != post:
                last_post[term] = post
                counts[term] += 1


@kernel(types.void, read(uint32), read(uint64), write(uint64), write(uint32))
def _invert(post_terms, starts, offsets, term_posts):  # type: ignore[no-untyped-def]
    for post in range(uint64(starts.size - 1)):
        for at in range(starts[post], starts[post + _ONE]):
            term = uint64(post_terms[at])
            term_posts[offsets[term]] = uint32(post)
            offsets[term] += _ONE
