"""Receive: a column of raw text becomes term numbers. Words nobody subscribed to are dropped here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.text import reference_analyzer, token_table, tokenizer
from tidings.text.arrow_buffers import bytes_of
from tidings.text.byte_masks import padded
from tidings.text.char_classes import class_table
from tidings.text.token_cache import Remembered
from tidings.text.vocabulary import Numbering, PackedTerms

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
        remembered: Remembered | None = None,
    ) -> None:
        """With `keep_gaps`, words without a number leave gaps; with `gaps_after` only behind terms flagged there.

        What is `remembered` may be shared by receivers that take turns; each has it numbered as it needs.
        """
        self._gaps_after = gaps_after
        self._numbering = numbering
        self._keep_gaps = keep_gaps
        self._max_entries = max_entries
        self._classes = class_table()
        self.remembered = remembered if remembered is not None else Remembered()
        self._padded = np.empty(0, np.uint8)

    def receive(self, texts: pa.Array) -> Received:
        """Clean every text (string, large string or binary; null counts as empty)."""
        data, offsets = bytes_of(texts)
        received = self._run(data, offsets)
        with_entities = np.flatnonzero(received.bounds[:, 0] == tokenizer.HAS_ENTITY)
        if with_entities.size:
            received = self._with_decoded(received, data, offsets, with_entities)
        refused = np.flatnonzero(received.bounds[:, 0] == tokenizer.NOT_UTF8)
        received.bounds[refused] = 0
        return replace(received, refused=refused)

    def _with_decoded(
        self, received: Received, data: NDArray[np.uint8], offsets: NDArray[np.int64], rows: NDArray[np.intp]
    ) -> Received:
        """Add the rows that hold HTML entities, decoded, behind the others."""
        texts = [_decoded(data[offsets[row] : offsets[row + 1]].tobytes()) for row in rows.tolist()]
        more = self._run(*bytes_of(pa.array(texts, pa.large_binary())))
        moved = more.bounds + np.uint32(len(received.terms))
        received.bounds[rows] = np.where(more.bounds < tokenizer.NOT_UTF8, moved, more.bounds)
        return Received(np.concatenate([received.terms, more.terms]), received.bounds)

    def _run(self, data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> Received:
        rows = len(offsets) - 1
        data = self._padded = padded(data[offsets[0] : offsets[-1]], self._padded)
        offsets = offsets - offsets[0]
        terms = np.empty(int(offsets[-1]) + 2 * rows + 2, np.uint32)
        bounds = np.empty((rows, 2), np.uint32)
        scratch = np.empty(tokenizer.scratch_size(int(np.diff(offsets).max(initial=0))), np.uint64)
        memory = self._own_memory()
        state = memory.state
        state[tokenizer.ROW] = state[tokenizer.USED] = 0
        settled, done = 0, False
        while not done:
            seen = int(state[token_table.ARENA])
            done = tokenizer.tokenise(
                data, offsets, self._classes, memory.slots, memory.arena, terms, bounds, state, scratch
            )
            row = int(state[tokenizer.ROW])
            if int(state[token_table.ARENA]) > seen:
                self._number(*memory.learn(seen))
                tokenizer.settle(terms, bounds[settled:row], memory.slots, int(self._keep_gaps), self._gaps_after)
            settled = row
            if not done:
                if len(memory) >= self._max_entries:
                    memory.forget()
                memory.make_room(int(offsets[row + 1] - offsets[row]))
        return Received(terms[: int(state[tokenizer.USED])], bounds)

    def _own_memory(self) -> Remembered:
        """The memory, with the numbers that this receiver's numbering gives."""
        memory = self.remembered
        if memory.numbered_for is not self:
            self._number(*memory.all())
            memory.numbered_for = self
        return memory

    def _number(self, slots: NDArray[np.uint64], terms: PackedTerms) -> None:
        """Note the numbers of terms, with a mark where a gap behind the term must be kept."""
        numbers = self._numbering.find(terms)
        if self._keep_gaps:
            wanted = self._gaps_after[numbers] != 0 if len(self._gaps_after) else numbers != 0
            numbers = numbers | np.where(wanted, tokenizer.GAP_BIT, np.uint32(0))
        self.remembered.number(slots, numbers)


def _decoded(text: bytes) -> bytes:
    """Entities decoded once. What is left of ampersands must not be decoded again: another separator replaces it.

    Invalid UTF-8 stays as it is: the row is then refused like any other.
    """
    try:
        return reference_analyzer.decode_entities(text.decode()).replace("&", "=").encode("utf-8", "replace")
    except UnicodeDecodeError:
        return b"\xff"
