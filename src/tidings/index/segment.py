"""A segment: conjunctions of some subscriptions, compiled into flat arrays. Immutable once built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.index import layout
from tidings.index.grid import finest_cells
from tidings.index.id_lookup import id_order
from tidings.index.spatial_postings import build_lists
from tidings.query.conjunctions import Conjunctions
from tidings.query.geo.geometry import boxes_of
from tidings.query.residual import write_programs

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
    asked: Words  # the region of each entry that asks for one; these entries come last
    cell_keys: NDArray[np.uint64]  # the lists of cells and words, as cell_lists.py says
    cell_start: Words
    cell_items: NDArray[np.uint32]
    holder_start: Words  # who holds an entry: holders[holder_start[e]:holder_start[e+1]]
    holders: Words
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

    def in_order_of_entries(self) -> tuple[Segment, NDArray[np.intp]]:
        """(the same with its subscriptions numbered as they are met going through the entries, their old numbers).

        Whoever wants a post then stands near others who do: matching writes about them in few places of the memory.
        """
        met = np.arange(len(self.holders))
        first = np.full(len(self), -1)
        first[self.holders[::-1]] = met[::-1]
        order = np.concatenate([self.holders[first[self.holders] == met], np.flatnonzero(first < 0)]).astype(np.intp)
        number = np.empty(len(self), np.uint32)
        number[order] = np.arange(len(self), dtype=np.uint32)
        ids = self.ids.take(pa.array(order))
        return replace(self, holders=number[self.holders], id_place=number[self.id_place], ids=ids), order


def build_segment(conjunctions: Conjunctions, ids: pa.Array) -> Segment:
    """Compile conjunctions; equal ones share one entry. Terms must be numbered by frequency, 1 the most frequent."""
    terms = conjunctions.terms.copy()
    starts, ends = conjunctions.starts[:-1].copy(), conjunctions.starts[1:].copy()
    layout.sort_terms(terms, starts, ends)
    program = _with_overflow(conjunctions.program, ends - starts)
    entry_of, chosen = _distinct(terms, starts, ends, _beside_words(conjunctions, program))
    keys = np.empty(len(chosen), np.uint64)
    layout.sort_keys(terms, starts, ends, chosen, keys)
    order, asking = _order(conjunctions, chosen, keys)
    chosen, keys = chosen[order], keys[order]
    first = len(chosen) - asking
    second, rest = np.empty(len(chosen), np.uint32), np.empty((len(chosen), 2), np.uint32)
    layout.fill_entries(terms, starts, ends, chosen, program, second, rest)
    place = np.empty(len(chosen), np.uint32)
    place[order] = np.arange(len(chosen), dtype=np.uint32)
    key_words, key_start = _lists(keys[:first])
    programmed, program_start, code = _programs(conjunctions, terms, starts, ends, chosen, program)
    asked = conjunctions.anchor_region[chosen[first:]].astype(np.uint32)
    cells = build_lists(conjunctions.regions, asked, _rarest(keys[first:]), second[first:], first)
    holder_start, holders = _holders(place[entry_of], conjunctions.owner, len(chosen))
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
        asked=asked,
        cell_keys=cells.keys,
        cell_start=cells.starts,
        cell_items=cells.items,
        holder_start=holder_start,
        holders=holders,
        id_hash=id_hash,
        id_place=id_place,
        ids=ids,
    )


def _with_overflow(program: Words, sizes: NDArray[np.uint64]) -> Words:
    """Conjunctions of more words than fit inline need a program even when they ask for nothing else: number 1."""
    numbered = np.where(program > 0, program + np.uint32(1), np.uint32(0))
    return np.where((program == 0) & (sizes > layout.INLINE_TERMS), np.uint32(1), numbered)


def _beside_words(conjunctions: Conjunctions, program: Words) -> Words:
    """A number for all that a conjunction asks for besides its words, equal demands alike: its program, or else the one
    region it asks for."""
    region = len(conjunctions.programs) + 2 + conjunctions.anchor_region
    is_region_alone = (conjunctions.program == 0) & (conjunctions.anchor_region >= 0)
    return np.where(is_region_alone, region, program).astype(np.uint32)


def _distinct(terms: Words, starts: NDArray[np.uint64], ends: NDArray[np.uint64], beside: Words) -> tuple[Words, Words]:
    """(the number of each conjunction's distinct form, one conjunction for each form)."""
    table = np.zeros(1 << max(4, (2 * len(ends)).bit_length()), np.uint32)
    numbers = np.empty(len(ends), np.uint32)
    count = layout.number_distinct(terms, starts, ends, beside, table, numbers)
    held = table[table > 0] - np.uint32(1)
    chosen = np.empty(count, np.uint32)
    chosen[numbers[held]] = held
    return numbers, chosen


def _order(conjunctions: Conjunctions, chosen: Words, keys: NDArray[np.uint64]) -> tuple[NDArray[np.intp], int]:
    """(how entries stand, how many at the end ask for a region): by their rarest words; behind these those that ask for
    a region, neighbours of one word together, so that a list of them is read in a line."""
    asks = conjunctions.anchor_region[chosen] >= 0
    plain, asking = np.flatnonzero(~asks), np.flatnonzero(asks)
    boxes, of = boxes_of(conjunctions.regions, conjunctions.anchor_region[chosen[asking]])
    corner = np.zeros(len(asking), np.int64)
    corner[of[::-1]] = finest_cells(boxes)[::-1]
    by_word = plain[np.argsort(keys[plain], kind="stable")]
    by_place = asking[np.lexsort((corner, _rarest(keys[asking])))]
    return np.concatenate([by_word, by_place]), len(asking)


def _rarest(keys: NDArray[np.uint64]) -> Words:
    """The rarest word of each entry, 0 where there is none."""
    words = (keys >> np.uint64(32)).astype(np.uint32)
    return np.where(words == layout.NO_WORD, np.uint32(0), words)


def _lists(keys: NDArray[np.uint64]) -> tuple[Words, Words]:
    """(the words that have a list, where each list starts) from the sorted keys of the entries."""
    with_word = (keys >> np.uint64(32)).astype(np.uint32)
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


def _holders(entry: Words, owner: Words, entries: int) -> tuple[Words, Words]:
    """(start of each entry's holders, the holders)."""
    counts = np.zeros(entries + 1, np.uint32)
    holders = np.empty(len(owner), np.uint32)
    used = layout.hold(entry, owner, counts, holders, np.zeros((entries, 2), np.uint32))
    return counts, holders[:used]
