"""How many posts of a sample contain each term. An index files conjunctions under terms that few posts contain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numba import types, uint32, uint64
from numpy.typing import NDArray

from tidings.jit import kernel, read, write
from tidings.text.analyzer import Analyzer
from tidings.text.vocabulary import Interner, hash_terms

MAX_SAMPLE_POSTS = 50_000  # more posts change few anchors
_BATCH_POSTS = 10_000
_MIN_POSTS_OF_TERM = 2  # a term of a single post is as rare as one that no post has


@dataclass(frozen=True, slots=True)
class TermStatistics:
    """The number of posts per term in a sample. Terms are hashes, ascending; rare ones are left out.

    All terms of the sample count, subscribed or not: a later subscription may use any of them.
    """

    posts: int
    hashes: NDArray[np.uint64]
    counts: NDArray[np.uint32]

    @classmethod
    def of(cls, texts: pa.Array) -> TermStatistics:
        """Count the posts per term; of more than `MAX_SAMPLE_POSTS` texts, evenly spaced ones are used."""
        if len(texts) > MAX_SAMPLE_POSTS:
            rows = np.linspace(0, len(texts), MAX_SAMPLE_POSTS, endpoint=False).astype(np.int64)
            texts = texts.take(pa.array(rows))
        numbering = Interner()
        analyzer = Analyzer(numbering)
        counts, last_post = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
        for start in range(0, len(texts), _BATCH_POSTS):
            batch = analyzer.analyze(texts.slice(start, _BATCH_POSTS))
            added = np.zeros(len(numbering) + 1 - len(counts), np.uint32)
            counts, last_post = np.concatenate([counts, added]), np.concatenate([last_post, added])
            _count_posts(batch.terms, batch.bounds, np.uint64(start + 1), last_post, counts)
        return cls.from_counts(len(texts), numbering.terms(), counts[1:])

    @classmethod
    def from_counts(cls, posts: int, terms: list[bytes], counts: NDArray[np.uint32]) -> TermStatistics:
        """Return the statistics of a sample, given its terms and the posts of each."""
        kept = np.flatnonzero(counts >= _MIN_POSTS_OF_TERM)
        hashes = hash_terms([terms[row] for row in kept.tolist()])
        order = np.argsort(hashes)
        return cls(posts, hashes[order], counts[kept[order]].astype(np.uint32))

    @classmethod
    def empty(cls) -> TermStatistics:
        """Return the statistics of no posts."""
        return cls(0, np.zeros(0, np.uint64), np.zeros(0, np.uint32))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> TermStatistics:
        """Return what `to_arrays` returned."""
        return cls(int(arrays["posts"][0]), arrays["hashes"], arrays["counts"])

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the statistics as arrays for files."""
        return {"posts": np.array([self.posts]), "hashes": self.hashes, "counts": self.counts}

    def counts_of(self, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the number of posts of each term, given the hashes of the terms (`vocabulary.hash_terms`)."""
        if not len(self.hashes):
            return np.zeros(len(hashes), np.int64)
        rows = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        return np.where(self.hashes[rows] == hashes, self.counts[rows], 0).astype(np.int64)


@kernel(types.void, read(uint32), read(uint32, 2), uint64, write(uint32), write(uint32))
def _count_posts(terms, bounds, first, last_post, counts):  # type: ignore[no-untyped-def]
    """Count every term once per post. Posts are numbered from `first`; `last_post` is the last post of each term."""
    for row in range(uint64(bounds.shape[0])):
        post = uint32(first + row)
        for at in range(uint64(bounds[row, uint64(0)]), uint64(bounds[row, uint64(1)])):
            term = uint64(terms[at])
            counts[term] += uint32(last_post[term] != post)
            last_post[term] = post
