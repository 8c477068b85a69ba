"""A segment: conjunctions of some subscriptions, compiled into flat arrays. Immutable once built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.index import layout
from tidings.index.conjunctions import Conjunctions
from tidings.index.grid import Lists, build_lists, cells_of
from tidings.index.ids import id_order
from tidings.index.program import write_programs
from tidings.index.shape import boxes_of

Words = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Segment:
    """The arrays a matcher reads; `layout.py` tells how. `ids` are the subscriptions' own ids."""

    keys: Words  # the words that have a list, ascending
    key_start: Words
    second: Words
    rest: NDArray[np.uint32]
    programmed: Words  # the entries that have a program, ascending
    program_start: NDArray[np.uint64]
    code: Words
    regions: NDArray[np.float64]  # rows of four, as shape.py says
    cell_keys: NDArray[np.uint64]  # the lists of cells and words, as grid.py says
    cell_start: Words
    cell_entries: Words
    holder_start: Words  # who holds an entry: holders[holder_start[e]:holder_start[e+1]]
    holders: Words
    repeated: NDArray[np.uint8]  # 1 for a subscription with several entries here
    id_hash: NDArray[np.uint64]  # ascending; to find a subscription by its id
    id_place: Words
    ids: pa.Array

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def array_names(cls) -> list[str]:
        return [field.name for field in fields(cls) if field.name != "ids"]

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {name: getattr(self, name) for name in self.array_names()}

    @property
    def size_bytes(self) -> int:
        return sum(array.nbytes for array in self.arrays().values()) + int(self.ids.nbytes)

    def list_start(self, term_count: int) -> Words:
        """Where the list of each term starts, dense: term t has ``[start[t], start[t + 1])``."""
        lengths = np.zeros(term_count + 2, np.uint32)
        lengths[self.keys + 1] = np.diff(self.key_start)
        return np.cumsum(lengths, dtype=np.uint32)


def build_segment(conjunctions: Conjunctions, ids: pa.Array) -> Segment:
    """Compile conjunctions; equal ones share one entry. Terms must be numbered by frequency, 1 the most frequent."""
    terms = conjunctions.terms.copy()
    starts, ends = conjunctions.starts[:-1].copy(), conjunctions.starts[1:].copy()
    layout.sort_terms(terms, starts, ends)
    program = _with_overflow(conjunctions.program, ends - starts)
    entry_of, chosen = _distinct(terms, starts, ends, program)
    keys = np.empty(len(chosen), np.uint64)
    layout.sort_keys(terms, starts, ends, chosen, keys)
    located = _Located.of(conjunctions, chosen, keys)
    keys[located.entries] = located.ranks()
    order = np.argsort(keys, kind="stable")
    chosen, keys = chosen[order], keys[order]
    second, rest = np.empty(len(chosen), np.uint32), np.empty((len(chosen), 2), np.uint32)
    layout.fill_entries(terms, starts, ends, chosen, program, second, rest)
    place = np.empty(len(chosen), np.uint32)
    place[order] = np.arange(len(chosen), dtype=np.uint32)
    key_words, key_start = _lists(keys)
    programmed, program_start, code = _programs(conjunctions, terms, starts, ends, chosen, program)
    cells = located.lists(place)
    holder_start, holders, repeated = _holders(place[entry_of], conjunctions.owner, len(chosen), len(ids))
    id_hash, id_place = id_order(ids)
    return Segment(
        keys=key_words,
        key_start=key_start,
        second=second,
        rest=rest,
        programmed=programmed,
        program_start=program_start,
        code=code,
        regions=conjunctions.regions.ravel(),
        cell_keys=cells.keys,
        cell_start=cells.starts,
        cell_entries=cells.entries,
        holder_start=holder_start,
        holders=holders,
        repeated=repeated,
        id_hash=id_hash,
        id_place=id_place,
        ids=ids,
    )


def _with_overflow(program: Words, sizes: NDArray[np.uint64]) -> Words:
    """Conjunctions of more words than fit inline need a program even when they ask for nothing else: number 1."""
    numbered = np.where(program > 0, program + np.uint32(1), np.uint32(0))
    return np.where((program == 0) & (sizes > layout.INLINE_TERMS), np.uint32(1), numbered)


def _distinct(
    terms: Words, starts: NDArray[np.uint64], ends: NDArray[np.uint64], program: Words
) -> tuple[Words, Words]:
    """(the number of each conjunction's distinct form, one conjunction for each form)."""
    table = np.zeros(1 << max(4, (2 * len(ends)).bit_length()), np.uint32)
    numbers = np.empty(len(ends), np.uint32)
    count = layout.number_distinct(terms, starts, ends, program, table, numbers)
    held = table[table > 0] - np.uint32(1)
    chosen = np.empty(count, np.uint32)
    chosen[numbers[held]] = held
    return numbers, chosen


def _lists(keys: NDArray[np.uint64]) -> tuple[Words, Words]:
    """(the words that have a list, where each list starts) from the sorted keys of the entries."""
    words = (keys >> np.uint64(32)).astype(np.uint32)
    with_word = words[: np.searchsorted(words, np.uint32(0xFFFFFFFF))]
    first = np.flatnonzero(np.diff(with_word, prepend=np.uint32(0)))
    return with_word[first], np.append(first, len(with_word)).astype(np.uint32)


def _programs(
    conjunctions: Conjunctions,
    terms: Words,
    starts: NDArray[np.uint64],
    ends: NDArray[np.uint64],
    chosen: Words,
    program: Words,
) -> tuple[Words, NDArray[np.uint64], Words]:
    """(entries that have a program, where each program starts, the code)."""
    programmed = np.flatnonzero(program[chosen]).astype(np.uint32)
    which = chosen[programmed]
    bases: list[Sequence[int]] = [(), (0, 0, 0), *(p.code() for p in conjunctions.programs)]
    base_start = np.cumsum([0, *map(len, bases)]).astype(np.uint32)
    base_code = np.fromiter((number for base in bases for number in base), np.uint32, int(base_start[-1]))
    firsts, lasts = starts[which] + np.uint64(layout.INLINE_TERMS), ends[which]
    program_start = np.zeros(len(which) + 1, np.uint64)
    arguments = (terms, firsts, lasts, program[which], base_code, base_start, program_start)
    write_programs(*arguments, np.empty(0, np.uint32))
    code = np.empty(int(program_start[-1]), np.uint32)
    write_programs(*arguments, code)
    return programmed, program_start, code


@dataclass(frozen=True, slots=True)
class _Located:
    """The entries that ask for a region, and (cell, which of these entries, its rarest word or 0) side by side."""

    entries: NDArray[np.intp]
    cells: NDArray[np.int64]
    which: NDArray[np.intp]
    words: Words

    @classmethod
    def of(cls, conjunctions: Conjunctions, chosen: Words, keys: NDArray[np.uint64]) -> _Located:
        anchors = conjunctions.anchor_region[chosen]
        entries = np.flatnonzero(anchors >= 0)
        boxes, part_of = boxes_of(conjunctions.regions, anchors[entries])
        cells, which = cells_of(boxes, part_of, len(entries))
        words = (keys[entries] >> np.uint64(32)).astype(np.uint32)
        return cls(entries, cells, which, np.where(words == 0xFFFFFFFF, np.uint32(0), words)[which])

    def ranks(self) -> NDArray[np.uint64]:
        """Sort keys behind those of all words: entries of a cell and word together, so that lists read in a line."""
        first = np.full(len(self.entries), np.iinfo(np.int64).max)
        np.minimum.at(first, self.which, self.cells << 32 | self.words)
        ranks = np.empty(len(first), np.uint64)
        ranks[np.argsort(first, kind="stable")] = np.arange(len(first), dtype=np.uint64)
        return np.uint64(0xFFFFFFFF << 32) | ranks

    def lists(self, place: Words) -> Lists:
        """The lists, once it is known where each entry comes to stand."""
        return build_lists(self.cells, self.words, place[self.entries[self.which]])


def _holders(entry: Words, owner: Words, entries: int, subscriptions: int) -> tuple[Words, Words, NDArray[np.uint8]]:
    """(start of each entry's holders, the holders, which subscriptions hold several entries)."""
    counts = np.zeros(entries + 1, np.uint32)
    holders = np.empty(len(owner), np.uint32)
    held = np.zeros(subscriptions, np.uint32)
    used = layout.hold(entry, owner, counts, holders, held, np.zeros((entries, 2), np.uint32))
    return counts, holders[:used], (held > 1).astype(np.uint8)
