"""What word plans are learned from: posts as sets of words, and for every word the posts that say it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numba import types, uint8, uint32, uint64
from numpy.typing import NDArray

from tidings.jit import kernel, read, write
from tidings.ragged import take_rows
from tidings.text.analyzer import Received, Receiver
from tidings.text.reference_analyzer import is_stop
from tidings.text.vocabulary import Interner, Numbering, Vocabulary

DEFAULT_SAMPLE = 1_000_000
_BATCH = 50_000
_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True)
class Corpus:
    """Words are numbered from 0 on, the one most posts say first. Both directions of (post, word), as flat rows."""

    terms: tuple[bytes, ...]
    words: NDArray[np.uint32]  # post p says words[starts[p]:starts[p + 1]], each once
    starts: NDArray[np.uint64]
    posts: NDArray[np.uint32]  # word w is said by posts[said[w]:said[w + 1]], ascending
    said: NDArray[np.uint64]

    @property
    def size(self) -> int:
        """How many posts there are, those that say nothing included."""
        return len(self.starts) - 1

    @property
    def frequency(self) -> NDArray[np.int64]:
        """How many posts say each word."""
        return np.diff(self.said).astype(np.int64)

    @classmethod
    def of_texts(cls, texts: pa.ChunkedArray | pa.Array, subscribed: Vocabulary | None = None) -> Corpus:
        """Clean posts; with `subscribed`, only these words count."""
        numbering = subscribed if subscribed is not None else Interner()
        return cls.of_numbers(receive_texts(texts, numbering), numbering.terms())

    @classmethod
    def of_numbers(cls, received: Sequence[Received], terms: Sequence[bytes]) -> Corpus:
        """Posts already numbered, from 1 on as these terms are; 0 is no word, and stop words lead nobody anywhere."""
        is_word = np.array([0, *(not is_stop(term.decode("utf-8", "replace")) for term in terms)], np.uint8)
        words, starts = _distinct(received, is_word)
        counts = np.bincount(words, minlength=len(terms) + 1)[1:]
        order = np.argsort(-counts, kind="stable")
        order = order[counts[order] > 0]
        renumbered = np.zeros(len(terms) + 1, np.uint32)
        renumbered[order + 1] = np.arange(len(order), dtype=np.uint32)
        return _corpus(tuple(terms[number] for number in order.tolist()), renumbered[words], starts)

    def sample(self, count: int, seed: int) -> Corpus:
        """So many posts drawn at random, in their order; all when there are no more."""
        if count >= self.size:
            return self
        rows = np.sort(np.random.default_rng(seed).choice(self.size, count, replace=False))
        return self.select(rows)

    def select(self, rows: NDArray[np.integer]) -> Corpus:
        """Some posts, with the words they say."""
        bounds = np.column_stack([self.starts[:-1][rows], self.starts[1:][rows]]).astype(np.uint32)
        return Corpus.of_numbers([Received(self.words + np.uint32(1), bounds)], self.terms)

    def number_of(self, terms: Sequence[bytes]) -> NDArray[np.int64]:
        """The number of each term; -1 for one no post says."""
        known = {term: number for number, term in enumerate(self.terms)}
        return np.fromiter((known.get(term, -1) for term in terms), np.int64, len(terms))


def inverted(words: NDArray[np.uint32], starts: NDArray[np.uint64], count: int) -> Corpus:
    """A corpus of nameless words, for what is derived from another."""
    return _corpus(tuple(b"%d" % number for number in range(count)), words, starts)


def _corpus(terms: tuple[bytes, ...], words: NDArray[np.uint32], starts: NDArray[np.uint64]) -> Corpus:
    said = np.concatenate([[0], np.cumsum(np.bincount(words, minlength=len(terms)))]).astype(np.uint64)
    posts = np.empty(len(words), np.uint32)
    _invert(words, starts, said[:-1].copy(), posts)
    return Corpus(terms, words, starts, posts, said)


def receive_texts(texts: pa.ChunkedArray | pa.Array, numbering: Numbering) -> list[Received]:
    """Posts with their words numbered, in pieces."""
    receiver = Receiver(numbering)
    return [_received(receiver, texts.slice(at, _BATCH)) for at in range(0, max(1, len(texts)), _BATCH)]


def joined(pieces: Sequence[Received]) -> Received:
    """Pieces as one, with nothing between the posts."""
    parts = [take_rows(one.terms, one.bounds[:, 0], one.bounds[:, 1] - one.bounds[:, 0]) for one in pieces]
    lengths = np.concatenate([np.diff(starts) for _, starts in parts])
    ends = np.cumsum(lengths).astype(np.uint32)
    bounds = np.ascontiguousarray(np.column_stack([ends - lengths.astype(np.uint32), ends]))
    return Received(np.concatenate([terms for terms, _ in parts]), bounds)


def _received(receiver: Receiver, texts: pa.ChunkedArray | pa.Array) -> Received:
    whole = texts.cast(pa.large_string())
    return receiver.receive(whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole)


def _distinct(
    received: Sequence[Received], is_word: NDArray[np.uint8]
) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
    """The words of each post, each once, in the order they are said."""
    words = np.empty(sum(len(piece.terms) for piece in received), np.uint32)
    starts = np.zeros(sum(map(len, received)) + 1, np.uint64)
    last_post = np.zeros(len(is_word), np.uint32)
    first = 0
    for piece in received:
        _keep_first(piece.terms, piece.bounds, np.uint64(first), is_word, last_post, words, starts)
        first += len(piece)
    return words[: int(starts[-1])].copy(), starts


@kernel(types.void, read(uint32), read(uint32, 2), uint64, read(uint8), write(uint32), write(uint32), write(uint64))
def _keep_first(terms, bounds, first, is_word, last_post, words, starts):  # type: ignore[no-untyped-def]
    """Append the words of posts, the first of which has number `first`; `last_post` says who said a word last."""
    used = starts[first]
    for row in range(uint64(bounds.shape[0])):
        post = uint32(first + row + _ONE)
        for at in range(uint64(bounds[row, uint64(0)]), uint64(bounds[row, _ONE])):
            term = uint64(terms[at])
            if is_word[term] != 0 and last_post[term] != post:
                last_post[term] = post
                words[used] = uint32(term)
                used += _ONE
        starts[uint64(post)] = used


@kernel(types.void, read(uint32), read(uint64), write(uint64), write(uint32))
def _invert(words, starts, places, posts):  # type: ignore[no-untyped-def]
    for post in range(uint64(starts.size - 1)):
        for at in range(starts[post], starts[post + _ONE]):
            word = uint64(words[at])
            posts[places[word]] = uint32(post)
            places[word] += _ONE
