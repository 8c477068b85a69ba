"""The token cache: every raw token seen so far, its term, and the id of that term in one dictionary.

Ids belong to one index version, terms do not. So the cache outlives an index version: assigning new ids takes
milliseconds, deriving all terms again would take seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidings.text import reference_analyzer, token_table, tokenizer
from tidings.text.vocabulary import PackedTerms, pack_terms

_INITIAL_SLOTS = 1 << 16
_MAX_TOKENS = 1 << 17  # about 15 MB; new tokens never end, and deriving the terms again takes half a second
_ARENA_BYTES_PER_TOKEN = 32


class TokenCache:
    """Raw tokens and their terms. Its memory is bounded: it forgets all tokens when it has about `max_tokens`.

    `state` belongs to the kernels: ENTRIES and ARENA are the sizes of the cache.
    """

    def __init__(self, max_tokens: int = _MAX_TOKENS) -> None:
        self.state = np.zeros(tokenizer.STATE_SIZE, np.uint64)
        self.ids_for: object = None  # the analyzer whose term ids the slots hold
        self._max_slots = max(_INITIAL_SLOTS, 1 << (2 * max_tokens - 1).bit_length())
        self._max_tokens = max_tokens
        self._max_arena_bytes = _ARENA_BYTES_PER_TOKEN * self._max_slots // 2
        self._allocate()

    def __len__(self) -> int:
        return int(self.state[token_table.ENTRIES])

    @property
    def nbytes(self) -> int:
        return int(self.slots.nbytes + self.arena.nbytes + self._text.nbytes + self._sizes.nbytes)

    def make_room(self, row_bytes: int) -> None:
        """Make room for a row of this size: forget all tokens if the cache is full, otherwise enlarge it."""
        arena_bytes = int(self.state[token_table.ARENA]) + (token_table.HEADER + 2) * row_bytes
        if len(self) and (len(self) + row_bytes > self._max_tokens or arena_bytes > self._max_arena_bytes):
            self._forget()
        else:
            self._enlarge(row_bytes)

    def trim(self) -> None:
        """Forget all tokens and release the memory if a long row has enlarged the cache beyond its limit."""
        if self.slots.size > token_table.SLOT * self._max_slots or self.arena.size > self._max_arena_bytes:
            self._allocate()

    def _allocate(self) -> None:
        self.slots = _empty_slots(_INITIAL_SLOTS - 1)
        self.arena = np.empty(16 * _INITIAL_SLOTS, np.uint8)
        self._text, self._sizes = _GrowableArray(np.uint8), _GrowableArray(np.uint64)
        self.state[token_table.ENTRIES] = self.state[token_table.ARENA] = 0

    def _forget(self) -> None:
        """Forget all tokens in place: released and allocated again, the memory would become fragmented."""
        self.slots.fill(0)
        self._text.clear()
        self._sizes.clear()
        self.state[token_table.ENTRIES] = self.state[token_table.ARENA] = 0

    def _enlarge(self, row_bytes: int) -> None:
        """Enlarge the table and the arena so that a row of this size fits."""
        old, arena = self.slots, self.arena
        used = int(self.state[token_table.ARENA])
        self.slots = _empty_slots(max(2 * (len(self) + row_bytes), _INITIAL_SLOTS))
        arena_bytes = max(len(arena), used + (token_table.HEADER + 2) * row_bytes)
        self.arena = np.empty(1 << (arena_bytes - 1).bit_length(), np.uint8)
        self.arena[:used] = arena[:used]
        token_table.rehash(old, self.slots, self.arena, used)

    def add_new(self, since: int) -> tuple[NDArray[np.uint64], PackedTerms]:
        """Derive and store the terms of the tokens added since this arena offset; return their slots and terms."""
        slots, kinds, text = self._entries(since)
        raws = text.tobytes().decode("utf-8", "replace").split("\n")[:-1]
        terms = pack_terms([term.encode() for term in _derive_terms(raws, kinds.tolist())])
        self._text.extend(terms.text)
        self._sizes.extend(np.diff(terms.starts))
        return slots, terms

    def set_ids(self, slots: NDArray[np.uint64], ids: NDArray[np.uint32]) -> None:
        """Store the term ids of these slots."""
        offsets = slots * np.uint64(token_table.SLOT) + np.uint64(3)
        self.slots[offsets] = (self.slots[offsets] >> np.uint64(32) << np.uint64(32)) | ids

    def list_terms(self) -> tuple[NDArray[np.uint64], PackedTerms]:
        """Return the slots of all tokens, and their terms."""
        starts = np.concatenate([np.zeros(1, np.uint64), np.cumsum(self._sizes.values, dtype=np.uint64)])
        return self._entries(0)[0], PackedTerms(self._text.values, starts)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the content as arrays for files; `load` reads them."""
        arena = self.arena[: int(self.state[token_table.ARENA])]
        return {"slots": self.slots, "arena": arena, "text": self._text.values, "sizes": self._sizes.values}

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Replace the content by that of `to_arrays`. Term ids are not valid afterwards."""
        self.ids_for = None
        self.slots = np.array(arrays["slots"])
        self.arena = np.concatenate([arrays["arena"], np.empty(16 * _INITIAL_SLOTS, np.uint8)])
        self._text, self._sizes = _GrowableArray(np.uint8), _GrowableArray(np.uint64)
        self._text.extend(arrays["text"])
        self._sizes.extend(arrays["sizes"])
        self.state[token_table.ENTRIES], self.state[token_table.ARENA] = len(arrays["sizes"]), len(arrays["arena"])

    def _entries(self, since: int) -> tuple[NDArray[np.uint64], NDArray[np.uint8], NDArray[np.uint8]]:
        """Return the slots, the kinds and the text of the tokens added since this arena offset, a line per token.

        The text is not decoded here: `list_terms` is called for every index version and does not need it.
        """
        until = int(self.state[token_table.ARENA])
        max_entries = (until - since) // (token_table.HEADER + 1) + 1
        slots, kinds = np.empty(max_entries, np.uint64), np.empty(max_entries, np.uint8)
        text = np.empty(until - since, np.uint8)
        count = token_table.list_entries(self.arena, since, until, slots, kinds, text)
        size = until - since - (token_table.HEADER - 1) * count
        return slots[:count], kinds[:count], text[:size]


class _GrowableArray:
    def __init__(self, kind: type[np.generic]) -> None:
        self._array: NDArray[Any] = np.empty(1 << 10, kind)
        self._size = 0

    @property
    def values(self) -> NDArray[Any]:
        return self._array[: self._size]

    @property
    def nbytes(self) -> int:
        return self._array.nbytes

    def clear(self) -> None:
        self._size = 0

    def extend(self, values: NDArray[Any]) -> None:
        size = self._size + len(values)
        if size > len(self._array):
            bigger = np.empty(2 * size, self._array.dtype)
            bigger[: self._size] = self.values
            self._array = bigger
        self._array[self._size : size] = values
        self._size = size


def _empty_slots(more_than: int) -> NDArray[np.uint64]:
    """Return an empty table of the next power of two."""
    return np.zeros(token_table.SLOT << more_than.bit_length(), np.uint64)


def _derive_terms(raws: list[str], kinds: Sequence[int]) -> list[str]:
    """Return the term of each raw token, empty if it has none; plain words are stemmed in one call."""
    terms: list[str] = reference_analyzer.stemmer().stemWords(raws)
    stop = reference_analyzer.stop_words()
    for row, (raw, kind) in enumerate(zip(raws, kinds, strict=True)):
        if kind == token_table.KIND_TAG:
            terms[row] = reference_analyzer.tag_term(raw) or ""
        elif raw in stop or "'" in raw or not raw.isascii():
            terms[row] = reference_analyzer.word_term(raw) or ""
    return terms
