"""What a receiver remembers: every raw token it has met, its term, and the number that term has for whoever asks.

Numbers belong to one version of an index, terms do not. So the memory outlives a version: the next one has it numbered
anew, which takes milliseconds where meeting all those tokens again takes seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidings.text import reference_analyzer, token_table, tokenizer
from tidings.text.vocabulary import PackedTerms, packed_terms

_FIRST_SLOTS = 1 << 16


class Remembered:
    """Raw tokens and their terms. `state` is the kernels': places ENTRIES and ARENA count what is here."""

    def __init__(self) -> None:
        self.state = np.zeros(tokenizer.STATE_SIZE, np.uint64)
        self.numbered_for: object = None  # who had the terms numbered last
        self.forget()

    def __len__(self) -> int:
        return int(self.state[token_table.ENTRIES])

    def forget(self) -> None:
        """Start anew."""
        self.slots = _empty_slots(_FIRST_SLOTS - 1)
        self.arena = np.empty(16 * _FIRST_SLOTS, np.uint8)
        self.state[token_table.ENTRIES] = self.state[token_table.ARENA] = 0
        self._text = _Growing(np.uint8)
        self._sizes = _Growing(np.uint64)

    def make_room(self, row_bytes: int) -> None:
        """A bigger table and arena, so that a row of this size fits."""
        old, arena = self.slots, self.arena
        used = int(self.state[token_table.ARENA])
        self.slots = _empty_slots(max(2 * (len(self) + row_bytes), _FIRST_SLOTS))
        self.arena = np.empty(max(2 * len(arena), 2 * used + 16 * row_bytes), np.uint8)
        self.arena[:used] = arena[:used]
        token_table.rehash(old, self.slots, self.arena, used)

    def learn(self, since: int) -> tuple[NDArray[np.uint64], PackedTerms]:
        """The slots of the tokens put in since this arena position, and their terms, worked out and kept."""
        slots, kinds, raws = self._entries(since)
        terms = packed_terms([term.encode() for term in _terms_of(raws, kinds)])
        self._text.extend(terms.text)
        self._sizes.extend(np.diff(terms.starts))
        return slots, terms

    def number(self, slots: NDArray[np.uint64], numbers: NDArray[np.uint32]) -> None:
        """Write the numbers that the terms of these slots have."""
        places = slots * np.uint64(token_table.SLOT) + np.uint64(3)
        self.slots[places] = (self.slots[places] >> np.uint64(32) << np.uint64(32)) | numbers

    def all(self) -> tuple[NDArray[np.uint64], PackedTerms]:
        """The slots of all tokens, and their terms."""
        starts = np.concatenate([np.zeros(1, np.uint64), np.cumsum(self._sizes.used, dtype=np.uint64)])
        return self._entries(0)[0], PackedTerms(self._text.used, starts)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All there is to remember, to be kept in files."""
        arena = self.arena[: int(self.state[token_table.ARENA])]
        return {"slots": self.slots, "arena": arena, "text": self._text.used, "sizes": self._sizes.used}

    def recall(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Remember what `arrays` gave once. Nothing is numbered yet."""
        self.numbered_for = None
        self.slots = np.array(arrays["slots"])
        self.arena = np.concatenate([arrays["arena"], np.empty(16 * _FIRST_SLOTS, np.uint8)])
        self._text, self._sizes = _Growing(np.uint8), _Growing(np.uint64)
        self._text.extend(arrays["text"])
        self._sizes.extend(arrays["sizes"])
        self.state[token_table.ENTRIES], self.state[token_table.ARENA] = len(arrays["sizes"]), len(arrays["arena"])

    def _entries(self, since: int) -> tuple[NDArray[np.uint64], list[int], list[str]]:
        until = int(self.state[token_table.ARENA])
        most = (until - since) // (token_table.HEADER + 1) + 1
        slots, kinds = np.empty(most, np.uint64), np.empty(most, np.uint8)
        text = np.empty(until - since, np.uint8)
        count = token_table.list_entries(self.arena, since, until, slots, kinds, text)
        size = until - since - (token_table.HEADER - 1) * count
        raws = text[:size].tobytes().decode("utf-8", "replace").split("\n")[:-1]
        return slots[:count], kinds[:count].tolist(), raws


class _Growing:
    """An array that grows at its end."""

    def __init__(self, kind: type[np.generic]) -> None:
        self._array: NDArray[Any] = np.empty(1 << 10, kind)
        self._size = 0

    @property
    def used(self) -> NDArray[Any]:
        return self._array[: self._size]

    def extend(self, more: NDArray[Any]) -> None:
        size = self._size + len(more)
        if size > len(self._array):
            bigger = np.empty(2 * size, self._array.dtype)
            bigger[: self._size] = self.used
            self._array = bigger
        self._array[self._size : size] = more
        self._size = size


def _empty_slots(more_than: int) -> NDArray[np.uint64]:
    """A table of the next power of two."""
    return np.zeros(token_table.SLOT << more_than.bit_length(), np.uint64)


def _terms_of(raws: list[str], kinds: Sequence[int]) -> list[str]:
    """`clean.term_of` for many raw tokens, empty for those that are none; plain words are stemmed in one call."""
    terms: list[str] = reference_analyzer.stemmer().stemWords(raws)
    stop = reference_analyzer.stop_words()
    for place, (raw, kind) in enumerate(zip(raws, kinds, strict=True)):
        if kind == token_table.KIND_TAG:
            terms[place] = reference_analyzer.tag_term(raw) or ""
        elif raw in stop or "'" in raw or not raw.isascii():
            terms[place] = reference_analyzer.word_term(raw) or ""
    return terms
