"""Queries of plain words, all or any of them, with at most one region: nearly all in practice, read without the parser.

They are received like posts, a million in a few seconds. Whatever is not certainly plain is left to the parser; both
ways agree, which is tested.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidings.config import QUERY_LIMITS
from tidings.errors import QueryError
from tidings.query.dnf import Place
from tidings.query.geo.region import typed_place
from tidings.query.table import boxes_in, region_of
from tidings.ragged import take_rows
from tidings.text.analyzer import Receiver
from tidings.text.vocabulary import Numbering

_WORD = "[A-Za-z0-9]{1,64}"
_ALL = rf"^{_WORD}( +{_WORD})*$"
_ANY = rf"^{_WORD}( +OR +{_WORD})+$"
_OPERATOR = r"(^| )(OR|NOT)( |$)"
_WITH_PLACE = r"^.* (within|near):[0-9.,+-]+$"


@dataclass(frozen=True, slots=True)
class Plain:
    """The terms of all plain queries one after another, and of each row how many: 0 for those left to the parser.

    `is_any`: whether one of the terms is enough; `boxes` has the rectangles that stand beside queries, NaN where there
    is none, `places` the other regions of rows that are plain.
    """

    terms: NDArray[np.uint32]
    sizes: NDArray[np.int64]
    is_any: NDArray[np.bool_]
    boxes: NDArray[np.float64]
    places: dict[int, Place]

    def conjunctions(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(the row, the number of terms) of each conjunction, in the order of the terms."""
        rows = np.flatnonzero(self.sizes)
        counts = np.where(self.is_any[rows], self.sizes[rows], 1)
        row = np.repeat(rows, counts)
        return row, np.where(self.is_any[row], 1, self.sizes[row])


def read_plain(queries: pa.Array, regions: pa.Array | None, vocabulary: Numbering) -> Plain:
    """What is plain of these queries and the regions beside them."""
    short = pc.less_equal(pc.utf8_length(queries), QUERY_LIMITS.characters)
    queries, places = _without_places(queries)
    is_all, is_any = _looks(queries, short)
    plain = is_all | is_any
    boxes, is_read = _take_regions(regions, plain, places)
    words = pc.replace_substring_regex(queries.filter(pa.array(plain)), " +OR +", " ")
    received = Receiver(vocabulary).receive(words)
    sizes = np.zeros(len(queries), np.int64)
    sizes[plain] = received.bounds[:, 1].astype(np.int64) - received.bounds[:, 0]
    typed = np.zeros(len(queries), np.int64)
    typed[plain] = np.asarray(pc.count_substring_regex(words, "[^ ]+"))
    keep = (sizes > 0) & (sizes < QUERY_LIMITS.leaves) & (sizes <= QUERY_LIMITS.conjunctions)
    keep &= ~is_any | (sizes == typed)  # what vanishes from a choice is for the parser to judge
    keep &= is_read
    chosen = received.bounds[keep[plain]].astype(np.int64)
    terms, _ = take_rows(received.terms, chosen[:, 0], chosen[:, 1] - chosen[:, 0])
    kept = {row: place for row, place in places.items() if place is not None and keep[row]}
    return Plain(terms, np.where(keep, sizes, 0), is_any, boxes, kept)


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


def _take_regions(
    regions: pa.Array | None, wanted: NDArray[np.bool_], places: dict[int, Place | None]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """(the rectangle beside each row or NaN, whether what stands beside it is read); shapes are added to `places`.

    A row with a second region, or with one that is none, is left to the parser.
    """
    if regions is None:
        return np.full((len(wanted), 4), np.nan), np.ones(len(wanted), bool)
    boxes, is_none = boxes_in(regions), regions.is_null().to_numpy(zero_copy_only=False)
    twice = [row for row in places if not is_none[row]]
    for row in twice:
        del places[row]
    boxes[twice] = np.nan
    is_read = is_none | ~np.isnan(boxes[:, 0])
    is_shape = wanted & ~is_read
    is_shape[twice] = False
    for row in np.flatnonzero(is_shape).tolist():
        with suppress(QueryError):
            places[row] = region_of(regions[row].as_py())
            is_read[row] = True
    return boxes, is_read
