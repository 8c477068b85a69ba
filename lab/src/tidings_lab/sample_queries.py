"""Drawing subscriptions from posts: a few distinct words of one random post each, as text or as word numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidings.index import layout
from tidings.index.compile import GrowingVocabulary
from tidings.query.conjunctions import Conjunctions
from tidings.ragged import take_rows
from tidings.text import reference_analyzer
from tidings.text.analyzer import Received, Receiver
from tidings.text.vocabulary import Vocabulary

FEWEST, MOST = 2, 4  # words of a drawn subscription
_CHUNK = 1_000_000  # subscriptions drawn at once, so that ten million need no memory beyond the result
_BATCH = 20_000


def draw_rows(
    starts: NDArray[np.int64], counts: NDArray[np.int64], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """For each count, so many distinct places of one random row of ``starts``; rows shorter than `MOST` are not drawn.

    Returns the places one after another and where those of each draw start.
    """
    lengths = np.diff(starts)
    long_enough = np.flatnonzero(lengths >= max(MOST, int(counts.max(initial=0))))
    parts = [_draw(starts, lengths, long_enough, counts[at : at + _CHUNK], rng) for at in range(0, len(counts), _CHUNK)]
    ends = np.cumsum(counts, dtype=np.uint64)
    return np.concatenate([np.zeros(0, np.int64), *parts]), np.concatenate([np.zeros(1, np.uint64), ends])


def _draw(
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    rows: NDArray[np.intp],
    counts: NDArray[np.int64],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    row = rows[rng.integers(0, len(rows), len(counts))]
    drawn = np.empty((len(counts), int(counts.max())), np.int64)
    for number in range(drawn.shape[1]):
        place = (rng.random(len(counts)) * (lengths[row] - number)).astype(np.int64)
        for before in np.sort(drawn[:, :number], axis=1).T:
            place += place >= before  # step over those already drawn
        drawn[:, number] = place
    flat: NDArray[np.int64] = (starts[row][:, None] + drawn)[np.arange(drawn.shape[1]) < counts[:, None]]
    return flat


def draw_queries(
    texts: Sequence[str], count: int, rng: np.random.Generator, fewest: int = FEWEST, most: int = MOST
) -> pa.Array:
    """So many queries of two to four words (or as told), each the words of one of these texts."""
    rows = [_query_words(text) for text in texts]
    numbers = pa.array([word for row in rows for word in row], pa.string())
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    places, bounds = draw_rows(starts, rng.integers(fewest, most + 1, count), rng)
    words = numbers.take(pa.array(places))
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(bounds.astype(np.int32)), words), " ")


def _query_words(text: str) -> list[str]:
    """The words of a text that a query may be made of: no stop words, letters only, each stem once."""
    decoded = reference_analyzer.decode_entities(text)
    found: dict[str, str] = {}
    for token in reference_analyzer.tokens(decoded):
        raw = decoded[token.start : token.end].lower()
        if (
            token.term
            and not token.is_tag
            and not reference_analyzer.is_stop(token.term)
            and raw.isalpha()
            and len(raw) >= 3
        ):
            found.setdefault(token.term, raw)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class NumberedPosts:
    """Posts as the numbers of their words, each word once: post i has ``words[starts[i]:starts[i+1]]``."""

    words: NDArray[np.uint32]
    starts: NDArray[np.int64]
    terms: list[bytes]  # the text of word number n is terms[n - 1]

    def __len__(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def of(cls, texts: pa.Array) -> NumberedPosts:
        """Every word of these texts gets a number; stop words and hashtags do not."""
        vocabulary = GrowingVocabulary()
        receiver = Receiver(vocabulary)
        pieces = [receiver.receive(texts.slice(at, _BATCH)) for at in range(0, len(texts), _BATCH)]
        terms = vocabulary.added.terms()
        is_word = np.array([False, *(not term.startswith(b"#") for term in terms)], bool)
        keys = [_distinct(piece, at * _BATCH, is_word) for at, piece in enumerate(pieces)]
        whole = np.concatenate([np.zeros(0, np.uint64), *keys])
        starts = np.searchsorted(whole >> np.uint64(32), np.arange(len(texts) + 1, dtype=np.uint64))
        return cls((whole & np.uint64(0xFFFFFFFF)).astype(np.uint32), starts.astype(np.int64), terms)

    def first(self, posts: int) -> NumberedPosts:
        """The first posts, at most so many."""
        starts = self.starts[: posts + 1]
        return NumberedPosts(self.words[: starts[-1]], starts, self.terms)

    def draw(self, count: int, seed: int, words: int | None = None) -> Conjunctions:
        """So many subscriptions of two to four words (or of exactly so many), each from one post."""
        rng = np.random.default_rng([seed, count])
        counts = rng.integers(FEWEST, MOST + 1, count) if words is None else np.full(count, words)
        places, starts = draw_rows(self.starts, counts.astype(np.int64), rng)
        return plain_conjunctions(self.words[places], starts)

    def received(self, new_number: NDArray[np.uint32]) -> Received:
        """The posts as a matcher gets them: words renumbered, those nobody subscribed to (0) dropped."""
        terms = new_number[self.words]
        kept = np.concatenate([[0], np.cumsum(terms > 0)])[self.starts].astype(np.uint32)
        return Received(terms[terms > 0], np.ascontiguousarray(np.column_stack([kept[:-1], kept[1:]])))


def _distinct(piece: Received, first_row: int, is_word: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """(row, word) of all words of a batch, each once, as one sorted number each."""
    bounds = piece.bounds.astype(np.int64)
    terms, starts = take_rows(piece.terms, bounds[:, 0], bounds[:, 1] - bounds[:, 0])
    row = np.repeat(np.arange(first_row, first_row + len(bounds), dtype=np.uint64), np.diff(starts).astype(np.int64))
    return np.unique((row << np.uint64(32) | terms)[is_word[terms]])


def plain_conjunctions(terms: NDArray[np.uint32], starts: NDArray[np.uint64]) -> Conjunctions:
    """Subscription i asks for ``terms[starts[i]:starts[i+1]]`` and nothing else."""
    count = len(starts) - 1
    return Conjunctions(
        terms=terms,
        starts=starts,
        owner=np.arange(count, dtype=np.uint32),
        program=np.zeros(count, np.uint32),
        programs=[],
        regions=np.zeros((0, 4)),
        anchor_region=np.full(count, -1, np.int64),
    )


def by_frequency(conjunctions: Conjunctions, terms: int) -> tuple[NDArray[np.uint32], int]:
    """(the new number of each word, from the most frequent on, 0 for words nobody asks for; how many are asked for)."""
    counts = np.bincount(conjunctions.terms, minlength=terms + 1)
    numbers = np.where(counts > 0, layout.frequency_order(counts), 0).astype(np.uint32)
    return numbers, int(np.count_nonzero(counts))


def vocabulary_bytes(terms: Sequence[bytes], new_number: NDArray[np.uint32]) -> int:
    """What the dictionary of the subscribed words takes."""
    used = [terms[number - 1] for number in np.flatnonzero(new_number).tolist()]
    built = Vocabulary.build(used)
    return built.text.nbytes + built.starts.nbytes + built.table.nbytes
