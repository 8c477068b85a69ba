"""Queries of plain words, all or any of them, with at most one region: nearly all in practice, read without the parser.

They are received like posts, a million in a few seconds. Whatever is not certainly plain is left to the parser; both
ways agree, which is tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidings.config import QUERY_LIMITS
from tidings.csr import take_rows
from tidings.errors import QueryError
from tidings.query.normal import Place
from tidings.query.region import typed_place
from tidings.query.rows import region_of
from tidings.receive.receiver import Receiver
from tidings.receive.vocabulary import Numbering

_WORD = "[A-Za-z0-9]{1,64}"
_ALL = rf"^{_WORD}( +{_WORD})*$"
_ANY = rf"^{_WORD}( +OR +{_WORD})+$"
_OPERATOR = r"(^| )(OR|NOT)( |$)"
_WITH_PLACE = r"^.* (within|near):[0-9.,+-]+$"


@dataclass(frozen=True, slots=True)
class Plain:
    """The terms of all plain queries one after another, and of each row how many: 0 for those left to the parser.

    `is_any`: whether one of the terms is enough; `places` has the regions of rows that are plain and ask for one.
    """

    terms: NDArray[np.uint32]
    sizes: NDArray[np.int64]
    is_any: NDArray[np.bool_]
    places: dict[int, Place]

    def conjunctions(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(the row, the number of terms) of each conjunction, in the order of the terms."""
        rows = np.flatnonzero(self.sizes)
        counts = np.where(self.is_any[rows], self.sizes[rows], 1)
        row = np.repeat(rows, counts)
        return row, np.where(self.is_any[row], 1, self.sizes[row])


def read_plain(queries: pa.Array, regions: Sequence[object] | None, vocabulary: Numbering) -> Plain:
    """What is plain of these queries and the regions beside them."""
    short = pc.less_equal(pc.utf8_length(queries), QUERY_LIMITS.characters)
    queries, places = _without_places(queries)
    is_all, is_any = _looks(queries, short)
    if regions is not None:
        _take_regions(regions, is_all | is_any, places)
    plain = is_all | is_any
    words = pc.replace_substring_regex(queries.filter(pa.array(plain)), " +OR +", " ")
    received = Receiver(vocabulary).receive(words)
    sizes = np.zeros(len(queries), np.int64)
    sizes[plain] = received.bounds[:, 1].astype(np.int64) - received.bounds[:, 0]
    typed = np.zeros(len(queries), np.int64)
    typed[plain] = np.asarray(pc.count_substring_regex(words, "[^ ]+"))
    keep = (sizes > 0) & (sizes < QUERY_LIMITS.leaves) & (sizes <= QUERY_LIMITS.conjunctions)
    keep &= ~is_any | (sizes == typed)  # what vanishes from a choice is for the parser to judge
    if regions is not None:
        keep &= np.array([value is None or row in places for row, value in enumerate(regions)], bool)
    chosen = received.bounds[keep[plain]].astype(np.int64)
    terms, _ = take_rows(received.terms, chosen[:, 0], chosen[:, 1] - chosen[:, 0])
    kept = {row: place for row, place in places.items() if place is not None and keep[row]}
    return Plain(terms, np.where(keep, sizes, 0), is_any, kept)


def _looks(queries: pa.Array, short: pa.Array) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(all words are asked for, any word is enough), as far as the look of a query tells."""
    is_all = pc.and_not(pc.match_substring_regex(queries, _ALL), pc.match_substring_regex(queries, _OPERATOR))
    rest = pc.replace_substring_regex(queries, " +OR +", " ")
    is_any = pc.and_not(pc.match_substring_regex(queries, _ANY), pc.match_substring_regex(rest, _OPERATOR))
    both = (pc.fill_null(pc.and_(short, one), False).to_numpy(zero_copy_only=False) for one in (is_all, is_any))
    is_all, is_any = (np.array(one, bool) for one in both)
    return is_all, is_any


def _without_places(queries: pa.Array) -> tuple[pa.Array, dict[int, Place | None]]:
    """Queries of which the region at the end was taken off, and these regions. ``a OR b within:…`` stays whole: there
    the region belongs to `b` alone."""
    ends = pc.fill_null(pc.match_substring_regex(queries, _WITH_PLACE), False).to_numpy(zero_copy_only=False)
    if not ends.any():
        return queries, {}
    places: dict[int, Place | None] = {}
    texts = queries.to_pylist()
    for row in np.flatnonzero(ends).tolist():
        words, _, typed = texts[row].rpartition(" ")
        words = words.strip(" ")
        inner = words[1:-1].strip(" ") if words.startswith("(") and words.endswith(")") else words
        if not set("()") & set(inner) and (inner is not words or " OR " not in inner):
            try:
                places[row] = typed_place(typed, 0)
                texts[row] = inner
            except QueryError:  # the parser knows at which position
                continue
    return pa.array(texts, pa.string()), places


def _take_regions(regions: Sequence[object], wanted: NDArray[np.bool_], places: dict[int, Place | None]) -> None:
    """The regions of plain rows; a row with a second one, or with one that is none, is left to the parser."""
    for row in np.flatnonzero(wanted).tolist():
        value = regions[row]
        if value is not None:
            try:
                place = None if row in places else region_of(value)
            except QueryError:
                place = None
            if place is None:
                places.pop(row, None)
            else:
                places[row] = place
