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


class TokenCache:
    """Raw tokens and their terms. `state` belongs to the kernels: ENTRIES and ARENA are the sizes of the cache."""

    def __init__(self) -> None:
        self.state = np.zeros(tokenizer.STATE_SIZE, np.uint64)
        self.ids_for: object = None  # the analyzer whose term ids the slots hold
        self.clear()

    def __len__(self) -> int:
        return int(self.state[token_table.ENTRIES])

    def clear(self) -> None:
        self.slots = _empty_slots(_INITIAL_SLOTS - 1)
        self.arena = np.empty(16 * _INITIAL_SLOTS, np.uint8)
        self.state[token_table.ENTRIES] = self.state[token_table.ARENA] = 0
        self._text = _GrowableArray(np.uint8)
        self._sizes = _GrowableArray(np.uint64)

    def reserve(self, row_bytes: int) -> None:
        """Enlarge the table and the arena so that a row of this size fits."""
        old, arena = self.slots, self.arena
        used = int(self.state[token_table.ARENA])
        self.slots = _empty_slots(max(2 * (len(self) + row_bytes), _INITIAL_SLOTS))
        self.arena = np.empty(max(2 * len(arena), 2 * used + 16 * row_bytes), np.uint8)
        self.arena[:used] = arena[:used]
        token_table.rehash(old, self.slots, self.arena, used)

    def add_new(self, since: int) -> tuple[NDArray[np.uint64], PackedTerms]:
        """Derive and store the terms of the tokens added since this arena offset; return their slots and terms."""
        slots, kinds, raws = self._entries(since)
        terms = pack_terms([term.encode() for term in _derive_terms(raws, kinds)])
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

    def _entries(self, since: int) -> tuple[NDArray[np.uint64], list[int], list[str]]:
        until = int(self.state[token_table.ARENA])
        max_entries = (until - since) // (token_table.HEADER + 1) + 1
        slots, kinds = np.empty(max_entries, np.uint64), np.empty(max_entries, np.uint8)
        text = np.empty(until - since, np.uint8)
        count = token_table.list_entries(self.arena, since, until, slots, kinds, text)
        size = until - since - (token_table.HEADER - 1) * count
        raws = text[:size].tobytes().decode("utf-8", "replace").split("\n")[:-1]
        return slots[:count], kinds[:count].tolist(), raws


class _GrowableArray:
    def __init__(self, kind: type[np.generic]) -> None:
        self._array: NDArray[Any] = np.empty(1 << 10, kind)
        self._size = 0

    @property
    def values(self) -> NDArray[Any]:
        return self._array[: self._size]

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
