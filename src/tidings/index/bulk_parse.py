"""Parse simple queries in bulk: words, joined by AND or by OR, with at most one region. Nearly all are, in practice.

They are analyzed like posts, a million in a few seconds. All other queries are left to the parser. Tests check that
both paths agree.
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
from tidings.query.dnf import Region
from tidings.query.geo.region import parse_region_word
from tidings.query.table import rectangles_in_column, region_from_column
from tidings.ragged import take_rows
from tidings.text.analyzer import Analyzer
from tidings.text.vocabulary import TermDictionary

_WORD = "[A-Za-z0-9]{1,64}"
_ALL = rf"^{_WORD}( +{_WORD})*$"
_ANY = rf"^{_WORD}( +OR +{_WORD})+$"
_OPERATOR = r"(^| )(OR|NOT)( |$)"
_WITH_REGION = r"^.* (within|near):[0-9.,+-]+$"


@dataclass(frozen=True, slots=True)
class SimpleQueries:
    """The terms of all simple queries, concatenated, and their number per row: 0 for rows left to the parser.

    `is_any`: whether one of the terms suffices. `boxes` has the rectangles of the region column, NaN without one;
    `regions` the other regions of simple rows.
    """

    terms: NDArray[np.uint32]
    sizes: NDArray[np.int64]
    is_any: NDArray[np.bool_]
    boxes: NDArray[np.float64]
    regions: dict[int, Region]

    def conjunctions(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return (the row, the number of terms) of each conjunction, in the order of the terms."""
        rows = np.flatnonzero(self.sizes)
        counts = np.where(self.is_any[rows], self.sizes[rows], 1)
        row = np.repeat(rows, counts)
        return row, np.where(self.is_any[row], 1, self.sizes[row])


def parse_simple(queries: pa.Array, regions: pa.Array | None, vocabulary: TermDictionary) -> SimpleQueries:
    """Return the simple queries among these, with the regions of their column."""
    short = pc.less_equal(pc.utf8_length(queries), QUERY_LIMITS.characters)
    queries, typed_regions = _split_regions(queries)
    is_all, is_any = _classify(queries, short)
    simple = is_all | is_any
    boxes, is_read = _read_regions(regions, simple, typed_regions)
    words = pc.replace_substring_regex(queries.filter(pa.array(simple)), " +OR +", " ")
    analyzed = Analyzer(vocabulary).analyze(words)
    sizes = np.zeros(len(queries), np.int64)
    sizes[simple] = analyzed.bounds[:, 1].astype(np.int64) - analyzed.bounds[:, 0]
    word_counts = np.zeros(len(queries), np.int64)
    word_counts[simple] = np.asarray(pc.count_substring_regex(words, "[^ ]+"))
    keep = (sizes > 0) & (sizes < QUERY_LIMITS.literals) & (sizes <= QUERY_LIMITS.conjunctions)
    keep &= ~is_any | (sizes == word_counts)  # an OR with an ignored word is left to the parser
    keep &= is_read
    chosen = analyzed.bounds[keep[simple]].astype(np.int64)
    terms, _ = take_rows(analyzed.terms, chosen[:, 0], chosen[:, 1] - chosen[:, 0])
    kept = {row: region for row, region in typed_regions.items() if region is not None and keep[row]}
    return SimpleQueries(terms, np.where(keep, sizes, 0), is_any, boxes, kept)


def _classify(queries: pa.Array, short: pa.Array) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return (all words are required, any word suffices) as far as regular expressions can decide."""
    is_all = pc.and_not(pc.match_substring_regex(queries, _ALL), pc.match_substring_regex(queries, _OPERATOR))
    rest = pc.replace_substring_regex(queries, " +OR +", " ")
    is_any = pc.and_not(pc.match_substring_regex(queries, _ANY), pc.match_substring_regex(rest, _OPERATOR))
    both = (pc.fill_null(pc.and_(short, flags), False) for flags in (is_all, is_any))
    is_all, is_any = (np.array(flags.to_numpy(zero_copy_only=False), bool) for flags in both)
    return is_all, is_any


def _split_regions(queries: pa.Array) -> tuple[pa.Array, dict[int, Region | None]]:
    """Return queries without the region at their end, and these regions.

    ``a OR b within:…`` is not split, because there the region belongs to `b` alone.
    """
    ends = pc.fill_null(pc.match_substring_regex(queries, _WITH_REGION), False).to_numpy(zero_copy_only=False)
    if not ends.any():
        return queries, {}
    typed_regions: dict[int, Region | None] = {}
    texts = queries.to_pylist()
    for row in np.flatnonzero(ends).tolist():
        words, _, typed = texts[row].rpartition(" ")
        words = words.strip(" ")
        inner = words[1:-1].strip(" ") if words.startswith("(") and words.endswith(")") else words
        if not set("()") & set(inner) and (inner is not words or " OR " not in inner):
            try:
                typed_regions[row] = parse_region_word(typed, 0)
                texts[row] = inner
            except QueryError:  # the parser reports it with its position
                continue
    return pa.array(texts, pa.string()), typed_regions


def _read_regions(
    regions: pa.Array | None, simple: NDArray[np.bool_], typed_regions: dict[int, Region | None]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return (the rectangle of each row's column or NaN, whether the column was read).

    Other shapes are added to `typed_regions`. A row with two regions or an invalid one is left to the parser.
    """
    if regions is None:
        return np.full((len(simple), 4), np.nan), np.ones(len(simple), bool)
    boxes, is_null = rectangles_in_column(regions), regions.is_null().to_numpy(zero_copy_only=False)
    twice = [row for row in typed_regions if not is_null[row]]
    for row in twice:
        del typed_regions[row]
    boxes[twice] = np.nan
    is_read = is_null | ~np.isnan(boxes[:, 0])
    is_shape = simple & ~is_read
    is_shape[twice] = False
    for row in np.flatnonzero(is_shape).tolist():
        with suppress(QueryError):
            typed_regions[row] = region_from_column(regions[row].as_py())
            is_read[row] = True
    return boxes, is_read
