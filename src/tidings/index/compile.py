"""Compile subscriptions into conjunctions of term numbers. Invalid ones are listed with their reason.

Queries of words only, nearly all in practice, take a faster path (`bulk_parse.py`); the others go through the parser.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.index.bulk_parse import SimpleQueries, parse_simple
from tidings.query.conjunctions import Conjunctions
from tidings.query.cover import Entry
from tidings.query.dnf import Conjunction
from tidings.query.geo.geometry import bounding_areas, deduplicate_regions
from tidings.query.residual import ResidualWriter, sort_regions
from tidings.query.table import InvalidSubscription, parse_rows
from tidings.ragged import rank_values
from tidings.text.term_statistics import TermStatistics
from tidings.text.vocabulary import Interner, LayeredVocabulary, PackedTerms, hash_terms


@dataclass(frozen=True, slots=True)
class CompiledSubscriptions:
    """Conjunctions of the valid subscriptions (`rows` of the table, in order), and the invalid subscriptions."""

    conjunctions: Conjunctions
    rows: NDArray[np.int64]
    invalid: tuple[InvalidSubscription, ...]


class GrowingVocabulary:
    """Known terms keep their number, new ones get the next. Stop words get none: simple queries ignore them."""

    def __init__(self, known: LayeredVocabulary | None = None, known_count: int = 0) -> None:
        self._known = known
        self._known_count = known_count
        self.added = Interner()

    def __len__(self) -> int:
        return self._known_count + len(self.added)

    def number(self, term: str) -> int:
        """Return the number of any term, stop words of phrases included."""
        return int(self._numbers([term.encode()])[0])

    def text_of(self, numbers: NDArray[np.uint32]) -> list[bytes]:
        """Return the terms with these numbers."""
        added = self.added.terms()
        known, count = self._known, self._known_count
        return [added[n - count - 1] if known is None or n > count else known.text_of(n) for n in numbers.tolist()]

    def hash_of(self, numbers: NDArray[np.uint32]) -> NDArray[np.uint64]:
        """Return the hashes of the terms with these numbers."""
        is_added = numbers > self._known_count
        hashes = np.zeros(len(numbers), np.uint64)
        if self._known is not None:
            hashes[~is_added] = self._known.hash_of(numbers[~is_added])
        hashes[is_added] = hash_terms(self.added.terms())[numbers[is_added].astype(np.int64) - self._known_count - 1]
        return hashes

    def order_terms(self, conjunctions: Conjunctions, statistics: TermStatistics) -> Conjunctions:
        """Order the terms of conjunctions, rarest in posts first; of equally rare ones the later one is rarer.

        Terms of an index are numbered by frequency, so the later one has fewer subscriptions.
        """
        if not statistics.posts:
            return conjunctions.order_terms(conjunctions.terms)
        used, which = rank_values(conjunctions.terms)
        return conjunctions.order_terms(_rarity(statistics.counts_of(self.hash_of(used)))[which])

    def find(self, packed: PackedTerms) -> NDArray[np.uint32]:
        """Return the number of each term, 0 for stop words."""
        terms = packed.to_list()
        numbers = np.zeros(len(terms), np.uint32)
        rows = [row for row, term in enumerate(terms) if term and not term.startswith(b".")]
        numbers[rows] = self._numbers([terms[row] for row in rows])
        return numbers

    def _numbers(self, terms: Sequence[bytes]) -> NDArray[np.uint32]:
        numbers = self._known.find_ids(terms) if self._known is not None else np.zeros(len(terms), np.uint32)
        new = np.flatnonzero(numbers == 0)
        numbers[new] = self.added.intern([terms[row] for row in new.tolist()]) + np.uint32(self._known_count)
        return numbers


def compile_subscriptions(table: pa.Table, vocabulary: GrowingVocabulary) -> CompiledSubscriptions:
    """Compile a table with `query` and optionally `region` (west, south, east, north). Ids stay with the caller.

    The terms of conjunctions are ordered by the number of these conjunctions that have them.
    """
    queries = table.column("query").combine_chunks().cast(pa.string())
    regions = table.column("region").combine_chunks() if "region" in table.column_names else None
    simple = parse_simple(queries, regions, vocabulary)
    parsed, invalid = parse_rows(queries, regions, np.flatnonzero(simple.sizes == 0))
    return _assemble(simple, parsed, invalid, vocabulary)


def _assemble(
    simple: SimpleQueries,
    parsed: dict[int, tuple[Entry, ...]],
    invalid: list[InvalidSubscription],
    vocabulary: GrowingVocabulary,
) -> CompiledSubscriptions:
    """Number the valid subscriptions in the order of their rows; conjunctions of simple queries come first."""
    writer = ResidualWriter(vocabulary.number)
    rows = np.sort(np.concatenate([np.flatnonzero(simple.sizes), np.fromiter(parsed, np.int64, len(parsed))]))
    simple_rows, simple_lengths = simple.conjunctions()
    others = [(row, entry) for row, entries in parsed.items() for entry in entries]
    other_terms = [writer.required_terms(entry.conjunction) for _, entry in others]
    residuals = [writer.add_residual(entry) for _, entry in others]
    lengths = np.concatenate([simple_lengths, np.array([len(terms) for terms in other_terms], np.int64)])
    row_of = np.concatenate([simple_rows, np.array([row for row, _ in others], np.int64)])
    anchor_regions = _anchor_regions([entry.conjunction for _, entry in others], writer)
    simple_regions, boxes = _simple_regions(simple, writer)
    regions, new_row = deduplicate_regions(np.concatenate([writer.region_rows(), boxes]))
    region_of = np.concatenate([simple_regions[simple_rows], np.array(anchor_regions, np.int64)])
    conjunctions = Conjunctions(
        terms=np.concatenate([simple.terms, np.array([t for terms in other_terms for t in terms], np.uint32)]),
        starts=np.concatenate([np.zeros(1, np.uint64), np.cumsum(lengths).astype(np.uint64)]),
        subscription=np.searchsorted(rows, row_of).astype(np.uint32),
        residual=np.concatenate([np.zeros(len(simple_rows), np.uint32), np.array(residuals, np.uint32)]),
        residuals=[residual.renumber(int, lambda region: int(new_row[region])) for residual in writer.residuals],
        regions=regions,
        anchor_region=np.append(new_row, -1)[region_of],
    )
    _, which = rank_values(conjunctions.terms)
    ordered = conjunctions.order_terms(_rarity(np.bincount(which))[which])
    return CompiledSubscriptions(ordered, rows, tuple(invalid))


def _rarity(counts: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return the rank of each term by falling count; of equal counts the later one is rarer."""
    rarity = np.empty(len(counts), np.uint32)
    rarity[np.argsort(-counts, kind="stable")] = np.arange(len(counts), dtype=np.uint32)
    return rarity


def _simple_regions(simple: SimpleQueries, writer: ResidualWriter) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return (the region of every simple row or -1, the rectangles), which are numbered after all other regions."""
    region_of = np.full(len(simple.sizes), -1)
    for row, region in simple.regions.items():
        region_of[row] = writer.add_region(region)
    boxed = np.flatnonzero((simple.sizes > 0) & ~np.isnan(simple.boxes[:, 0]))
    region_of[boxed] = len(writer.region_rows()) + np.arange(len(boxed))
    return region_of, simple.boxes[boxed]


def _anchor_regions(conjunctions: Sequence[Conjunction], writer: ResidualWriter) -> list[int]:
    """Return the smallest region that each conjunction requires, or -1."""
    required = [[writer.add_region(region) for region in sort_regions(c.required)] for c in conjunctions]
    area = bounding_areas(writer.region_rows())
    return [min(regions, key=lambda r: (area[r], r), default=-1) for regions in required]
