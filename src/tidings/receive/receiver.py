"""Receive: a column of raw text becomes term numbers. Words nobody subscribed to are dropped here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.receive import clean, lexicon, tokenise
from tidings.receive.characters import class_table
from tidings.receive.column import bytes_of
from tidings.receive.marks import padded
from tidings.receive.vocabulary import Numbering

_FIRST_SLOTS = 1 << 16
_MAX_ENTRIES = 1 << 20  # beyond it the lexicon starts anew, so that endless new words cost no endless memory
_AFTER_ALL = np.zeros(0, np.uint8)


@dataclass(frozen=True, slots=True)
class Received:
    """Term numbers of a batch of posts: post i has ``terms[bounds[i, 0]:bounds[i, 1]]``.

    Its words in order, then its tags. 0 is a gap no phrase reaches across; gaps are there only if asked for.
    A post that is not valid UTF-8 has no terms and its place is in `refused`.
    """

    terms: NDArray[np.uint32]
    bounds: NDArray[np.uint32]
    refused: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, np.intp))

    def __len__(self) -> int:
        return len(self.bounds)


class Receiver:
    """Turns text into term numbers, remembering every raw token it has seen."""

    def __init__(
        self,
        numbering: Numbering,
        keep_gaps: bool = False,
        gaps_after: NDArray[np.uint8] = _AFTER_ALL,
        max_entries: int = _MAX_ENTRIES,
    ) -> None:
        """With `keep_gaps`, words without a number leave gaps; with `gaps_after` only behind terms flagged there."""
        self._gaps_after = gaps_after
        self._numbering = numbering
        self._keep_gaps = keep_gaps
        self._max_entries = max_entries
        self._classes = class_table()
        self._state = np.zeros(tokenise.STATE_SIZE, np.uint64)
        self._slots, self._arena = _empty_lexicon()
        self._padded = np.empty(0, np.uint8)

    def receive(self, texts: pa.Array) -> Received:
        """Clean every text (string, large string or binary; null counts as empty)."""
        data, offsets = bytes_of(texts)
        received = self._run(data, offsets)
        with_entities = np.flatnonzero(received.bounds[:, 0] == tokenise.HAS_ENTITY)
        if with_entities.size:
            received = self._with_decoded(received, data, offsets, with_entities)
        refused = np.flatnonzero(received.bounds[:, 0] == tokenise.NOT_UTF8)
        received.bounds[refused] = 0
        return replace(received, refused=refused)

    def _with_decoded(
        self, received: Received, data: NDArray[np.uint8], offsets: NDArray[np.int64], rows: NDArray[np.intp]
    ) -> Received:
        """Add the rows that hold HTML entities, decoded, behind the others."""
        texts = [_decoded(data[offsets[row] : offsets[row + 1]].tobytes()) for row in rows.tolist()]
        more = self._run(*bytes_of(pa.array(texts, pa.large_binary())))
        moved = more.bounds + np.uint32(len(received.terms))
        received.bounds[rows] = np.where(more.bounds < tokenise.NOT_UTF8, moved, more.bounds)
        return Received(np.concatenate([received.terms, more.terms]), received.bounds)

    def _run(self, data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> Received:
        rows = len(offsets) - 1
        data = self._padded = padded(data[offsets[0] : offsets[-1]], self._padded)
        offsets = offsets - offsets[0]
        terms = np.empty(int(offsets[-1]) + 2 * rows + 2, np.uint32)
        bounds = np.empty((rows, 2), np.uint32)
        scratch = np.empty(tokenise.scratch_size(int(np.diff(offsets).max(initial=0))), np.uint64)
        state = self._state
        state[tokenise.ROW] = state[tokenise.USED] = 0
        settled, done = 0, False
        while not done:
            seen = int(state[lexicon.ARENA])
            done = tokenise.tokenise(
                data, offsets, self._classes, self._slots, self._arena, terms, bounds, state, scratch
            )
            row = int(state[tokenise.ROW])
            news = int(state[lexicon.ARENA]) > seen
            if news:
                self._work_out(seen)
            if news:
                tokenise.settle(terms, bounds[settled:row], self._slots, int(self._keep_gaps), self._gaps_after)
            settled = row
            if not done:
                self._make_room(int(offsets[row + 1] - offsets[row]))
        return Received(terms[: int(state[tokenise.USED])], bounds)

    def _work_out(self, since: int) -> None:
        """Give every token put into the lexicon since this arena position the number of its term."""
        until = int(self._state[lexicon.ARENA])
        most = (until - since) // (lexicon.HEADER + 1) + 1
        slots, kinds = np.empty(most, np.uint64), np.empty(most, np.uint8)
        text = np.empty(until - since, np.uint8)
        count = lexicon.list_entries(self._arena, since, until, slots, kinds, text)
        size = until - since - (lexicon.HEADER - 1) * count
        raws = text[:size].tobytes().decode("utf-8", "replace").split("\n")[:-1]
        numbers = self._numbering.numbers([term.encode() for term in _terms_of(raws, kinds[:count].tolist())])
        if self._keep_gaps:
            wanted = self._gaps_after[numbers] != 0 if len(self._gaps_after) else numbers != 0
            numbers = numbers | np.where(wanted, tokenise.GAP_BIT, np.uint32(0))
        places = slots[:count] * np.uint64(lexicon.SLOT) + np.uint64(3)
        self._slots[places] = (self._slots[places] >> np.uint64(32) << np.uint64(32)) | numbers

    def _make_room(self, row_bytes: int) -> None:
        """A bigger lexicon, or an empty one once the bound is reached."""
        entries = int(self._state[lexicon.ENTRIES])
        if entries >= self._max_entries:
            self._slots, self._arena = _empty_lexicon()
            self._state[lexicon.ENTRIES] = self._state[lexicon.ARENA] = entries = 0
        old, arena = self._slots, self._arena
        self._slots = _empty_slots(max(2 * (entries + row_bytes), _FIRST_SLOTS))
        used = int(self._state[lexicon.ARENA])
        self._arena = np.empty(max(2 * len(arena), 2 * used + 16 * row_bytes), np.uint8)
        self._arena[:used] = arena[:used]
        lexicon.rehash(old, self._slots, self._arena, used)


def _empty_lexicon() -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    return _empty_slots(_FIRST_SLOTS - 1), np.empty(16 * _FIRST_SLOTS, np.uint8)


def _empty_slots(more_than: int) -> NDArray[np.uint64]:
    """A table of the next power of two."""
    return np.zeros(lexicon.SLOT << more_than.bit_length(), np.uint64)


def _terms_of(raws: list[str], kinds: list[int]) -> list[str]:
    """`clean.term_of` for many raw tokens, empty for those that are none; plain words are stemmed in one call."""
    terms: list[str] = clean.stemmer().stemWords(raws)
    stop = clean.stop_words()
    for place, (raw, kind) in enumerate(zip(raws, kinds, strict=True)):
        if kind == lexicon.KIND_TAG:
            terms[place] = clean.tag_term(raw) or ""
        elif raw in stop or "'" in raw or not raw.isascii():
            terms[place] = clean.word_term(raw) or ""
    return terms


def _decoded(text: bytes) -> bytes:
    """Entities decoded once. What is left of ampersands must not be decoded again: another separator replaces it.

    Invalid UTF-8 stays as it is: the row is then refused like any other.
    """
    try:
        return clean.decode_entities(text.decode()).replace("&", "=").encode("utf-8", "replace")
    except UnicodeDecodeError:
        return b"\xff"
