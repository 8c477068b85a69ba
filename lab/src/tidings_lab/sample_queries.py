"""Draw subscriptions from posts: some distinct terms of one random post each, as text or as term ids."""

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
from tidings.text.analyzer import AnalyzedBatch, Analyzer
from tidings.text.vocabulary import Vocabulary

MIN_TERMS, MAX_TERMS = 2, 4  # terms per drawn subscription
_CHUNK = 1_000_000  # subscriptions per step, to limit the memory for ten million
_BATCH = 20_000


def draw_rows(
    starts: NDArray[np.int64], counts: NDArray[np.int64], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """For each count, draw that number of distinct positions of one random row of at least `MAX_TERMS`.

    Returns the concatenated positions and the start of each draw.
    """
    lengths = np.diff(starts)
    long_enough = np.flatnonzero(lengths >= max(MAX_TERMS, int(counts.max(initial=0))))
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
            place += place >= before  # skip those already drawn
        drawn[:, number] = place
    flat: NDArray[np.int64] = (starts[row][:, None] + drawn)[np.arange(drawn.shape[1]) < counts[:, None]]
    return flat


def draw_queries(
    texts: Sequence[str], count: int, rng: np.random.Generator, fewest: int = MIN_TERMS, most: int = MAX_TERMS
) -> pa.Array:
    """Draw `count` queries with `fewest` to `most` words of one of these texts each."""
    rows = [_query_words(text) for text in texts]
    numbers = pa.array([word for row in rows for word in row], pa.string())
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    places, bounds = draw_rows(starts, rng.integers(fewest, most + 1, count), rng)
    words = numbers.take(pa.array(places))
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(bounds.astype(np.int32)), words), " ")


def _query_words(text: str) -> list[str]:
    """Return the words of a text that a query may contain: letters only, no stop words, each stem once."""
    decoded = reference_analyzer.decode_entities(text)
    words: dict[str, str] = {}
    for token in reference_analyzer.tokenize(decoded):
        raw = decoded[token.start : token.end].lower()
        if (
            token.term
            and not token.is_tag
            and not reference_analyzer.is_stop(token.term)
            and raw.isalpha()
            and len(raw) >= 3
        ):
            words.setdefault(token.term, raw)
    return list(words.values())


@dataclass(frozen=True, slots=True)
class NumberedPosts:
    """Posts as distinct term ids: post i has `words[starts[i]:starts[i + 1]]`."""

    words: NDArray[np.uint32]
    starts: NDArray[np.int64]
    terms: list[bytes]  # the text of term id n is terms[n - 1]

    def __len__(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def of(cls, texts: pa.Array) -> NumberedPosts:
        """Analyze texts; stop words and hashtags get no id."""
        vocabulary = GrowingVocabulary()
        receiver = Analyzer(vocabulary)
        pieces = [receiver.analyze(texts.slice(at, _BATCH)) for at in range(0, len(texts), _BATCH)]
        terms = vocabulary.added.terms()
        is_word = np.array([False, *(not term.startswith(b"#") for term in terms)], bool)
        keys = [_distinct(piece, at * _BATCH, is_word) for at, piece in enumerate(pieces)]
        whole = np.concatenate([np.zeros(0, np.uint64), *keys])
        starts = np.searchsorted(whole >> np.uint64(32), np.arange(len(texts) + 1, dtype=np.uint64))
        return cls((whole & np.uint64(0xFFFFFFFF)).astype(np.uint32), starts.astype(np.int64), terms)

    def first(self, posts: int) -> NumberedPosts:
        """Return the first `posts` posts."""
        starts = self.starts[: posts + 1]
        return NumberedPosts(self.words[: starts[-1]], starts, self.terms)

    def draw(self, count: int, seed: int, words: int | None = None) -> Conjunctions:
        """Draw `count` subscriptions of two to four terms (or exactly `words`), each from one post."""
        rng = np.random.default_rng([seed, count])
        counts = rng.integers(MIN_TERMS, MAX_TERMS + 1, count) if words is None else np.full(count, words)
        places, starts = draw_rows(self.starts, counts.astype(np.int64), rng)
        return make_conjunctions(self.words[places], starts)

    def to_batch(self, new_number: NDArray[np.uint32]) -> AnalyzedBatch:
        """Return the posts as a matcher gets them: terms renumbered, unsubscribed terms (0) removed."""
        terms = new_number[self.words]
        bounds = np.concatenate([[0], np.cumsum(terms > 0)])[self.starts].astype(np.uint32)
        return AnalyzedBatch(terms[terms > 0], np.ascontiguousarray(np.column_stack([bounds[:-1], bounds[1:]])))


def _distinct(piece: AnalyzedBatch, first_row: int, is_word: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Return the distinct (row, term) pairs of a batch as sorted numbers."""
    bounds = piece.bounds.astype(np.int64)
    terms, starts = take_rows(piece.terms, bounds[:, 0], bounds[:, 1] - bounds[:, 0])
    row = np.repeat(np.arange(first_row, first_row + len(bounds), dtype=np.uint64), np.diff(starts).astype(np.int64))
    return np.unique((row << np.uint64(32) | terms)[is_word[terms]])


def make_conjunctions(terms: NDArray[np.uint32], starts: NDArray[np.uint64]) -> Conjunctions:
    """Return conjunctions: subscription i has exactly the terms `terms[starts[i]:starts[i + 1]]`."""
    count = len(starts) - 1
    return Conjunctions(
        terms=terms,
        starts=starts,
        subscription=np.arange(count, dtype=np.uint32),
        residual=np.zeros(count, np.uint32),
        residuals=[],
        regions=np.zeros((0, 4)),
        anchor_region=np.full(count, -1, np.int64),
    )


def number_by_frequency(conjunctions: Conjunctions, terms: int) -> tuple[NDArray[np.uint32], int]:
    """Return the new id of each term by descending frequency (0: not subscribed), and the number of such terms."""
    counts = np.bincount(conjunctions.terms, minlength=terms + 1)
    numbers = np.where(counts > 0, layout.frequency_order(counts), 0).astype(np.uint32)
    return numbers, int(np.count_nonzero(counts))


def renumber_by_frequency(conjunctions: Conjunctions, numbers: NDArray[np.uint32]) -> Conjunctions:
    """Return the conjunctions with these ids, the least frequent term of each first."""
    renumbered = conjunctions.renumber_terms(numbers)
    return renumbered.order_terms(renumbered.terms)


def vocabulary_bytes(terms: Sequence[bytes], new_number: NDArray[np.uint32]) -> int:
    """Return the bytes of the vocabulary of the subscribed terms."""
    used = [terms[number - 1] for number in np.flatnonzero(new_number).tolist()]
    built = Vocabulary.build(used)
    return built.text.nbytes + built.starts.nbytes + built.table.nbytes
