"""The analyzer: turns a column of raw text into term ids and drops tokens that no subscription uses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.text import reference_analyzer, token_table, tokenizer
from tidings.text.arrow_buffers import text_buffers
from tidings.text.byte_masks import pad
from tidings.text.char_classes import class_table
from tidings.text.content_hash import hash_term_lists, hash_texts
from tidings.text.token_cache import TokenCache
from tidings.text.vocabulary import PackedTerms, TermDictionary

COMPANION = np.uint32(1 << 31)  # flags a term whose posting list a matcher does not need
NO_FLAGS = np.zeros(0, np.uint8)  # flags of no term: gaps are kept after all terms


@dataclass(frozen=True, slots=True)
class AnalyzedBatch:
    """Term ids of a batch of posts: post i has ``terms[bounds[i, 0]:bounds[i, 1]]``.

    Words come first, in order, then tags. Id 0 is a gap that no phrase crosses; gaps exist only with `keep_gaps`.
    Routing may flag terms with `COMPANION`.
    Posts that are not valid UTF-8 have no terms; `rejected` lists their rows. `text_hashes` has a hash of the text of
    each post, if the analyzer was asked for it.
    """

    terms: NDArray[np.uint32]
    bounds: NDArray[np.uint32]
    rejected: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, np.intp))
    text_hashes: NDArray[np.uint64] | None = None

    def __len__(self) -> int:
        return len(self.bounds)

    def content_hashes(self) -> NDArray[np.uint64]:
        """Return a hash of the content of each post: of its text if it is known, otherwise of its terms."""
        if self.text_hashes is not None:
            return self.text_hashes
        hashes = np.empty(len(self), np.uint64)
        hash_term_lists(self.terms, self.bounds, hashes)
        return hashes


class Analyzer:
    """Turns text into the term ids of one dictionary, with a cache of every raw token seen."""

    def __init__(
        self,
        dictionary: TermDictionary,
        keep_gaps: bool = False,
        gaps_after: NDArray[np.uint8] = NO_FLAGS,
        token_cache: TokenCache | None = None,
        with_text_hashes: bool = False,
    ) -> None:
        """With `keep_gaps`, unknown words leave gaps; with `gaps_after`, only after the terms flagged there.

        Analyzers that take turns may share a token cache; each stores its own term ids in it before use.
        """
        self._gaps_after = gaps_after
        self._dictionary = dictionary
        self._keep_gaps = keep_gaps
        self._with_text_hashes = with_text_hashes
        self._classes = class_table()
        self.token_cache = token_cache if token_cache is not None else TokenCache()
        self._padded = np.empty(0, np.uint8)

    def analyze(self, texts: pa.Array) -> AnalyzedBatch:
        """Return the terms of every text (string, large string or binary; null counts as empty)."""
        data, offsets = text_buffers(texts)
        batch = self._tokenize(data, offsets)
        with_entities = np.flatnonzero(batch.bounds[:, 0] == tokenizer.HAS_ENTITY)
        if with_entities.size:
            batch = self._add_decoded(batch, data, offsets, with_entities)
        rejected = np.flatnonzero(batch.bounds[:, 0] == tokenizer.NOT_UTF8)
        batch.bounds[rejected] = 0
        hashes = _hash_texts(data, offsets) if self._with_text_hashes else None
        return replace(batch, rejected=rejected, text_hashes=hashes)

    def _add_decoded(
        self, batch: AnalyzedBatch, data: NDArray[np.uint8], offsets: NDArray[np.int64], rows: NDArray[np.intp]
    ) -> AnalyzedBatch:
        """Decode the rows that contain HTML entities and append their terms."""
        texts = [_decode_bytes(data[offsets[row] : offsets[row + 1]].tobytes()) for row in rows.tolist()]
        decoded = self._tokenize(*text_buffers(pa.array(texts, pa.large_binary())))
        moved = decoded.bounds + np.uint32(len(batch.terms))
        batch.bounds[rows] = np.where(decoded.bounds < tokenizer.NOT_UTF8, moved, decoded.bounds)
        return AnalyzedBatch(np.concatenate([batch.terms, decoded.terms]), batch.bounds)

    def _tokenize(self, data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> AnalyzedBatch:
        rows = len(offsets) - 1
        data = self._padded = pad(data[offsets[0] : offsets[-1]], self._padded)
        offsets = offsets - offsets[0]
        terms = np.empty(int(offsets[-1]) + 2 * rows + 2, np.uint32)
        bounds = np.empty((rows, 2), np.uint32)
        scratch = np.empty(tokenizer.scratch_size(int(np.diff(offsets).max(initial=0))), np.uint64)
        cache = self._cache_with_ids()
        state = cache.state
        state[tokenizer.ROW] = state[tokenizer.USED] = 0
        resolved, done = 0, False
        while not done:
            arena_before = int(state[token_table.ARENA])
            done = tokenizer.tokenize(
                data, offsets, self._classes, cache.slots, cache.arena, terms, bounds, state, scratch
            )
            row = int(state[tokenizer.ROW])
            if int(state[token_table.ARENA]) > arena_before:
                self._assign_ids(*cache.add_new(arena_before))
                tokenizer.resolve_pending(
                    terms, bounds[resolved:row], cache.slots, int(self._keep_gaps), self._gaps_after
                )
            resolved = row
            if not done:
                cache.make_room(int(offsets[row + 1] - offsets[row]))
        cache.trim()
        return AnalyzedBatch(terms[: int(state[tokenizer.USED])], bounds)

    def _cache_with_ids(self) -> TokenCache:
        """Return the token cache with the term ids of this analyzer."""
        cache = self.token_cache
        if cache.ids_for is not self:
            self._assign_ids(*cache.list_terms())
            cache.ids_for = self
        return cache

    def _assign_ids(self, slots: NDArray[np.uint64], terms: PackedTerms) -> None:
        """Store the ids of terms in their slots, with a flag where a gap after the term must be kept."""
        ids = self._dictionary.find(terms)
        if self._keep_gaps:
            keeps_gap = self._gaps_after[ids] != 0 if len(self._gaps_after) else ids != 0
            ids = ids | np.where(keeps_gap, tokenizer.GAP_BIT, np.uint32(0))
        self.token_cache.set_ids(slots, ids)


def _hash_texts(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    hashes = np.empty(len(offsets) - 1, np.uint64)
    hash_texts(data, offsets.view(np.uint64), hashes)
    return hashes


def _decode_bytes(text: bytes) -> bytes:
    """Decode entities once; remaining ampersands become another separator, so that they are not decoded again.

    Invalid UTF-8 stays invalid, so that the row is rejected.
    """
    try:
        return reference_analyzer.decode_entities(text.decode()).replace("&", "=").encode("utf-8", "replace")
    except UnicodeDecodeError:
        return b"\xff"
