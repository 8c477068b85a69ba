"""From subscriptions to conjunctions of term numbers. What cannot be understood is set aside with its reason.

Queries of plain words, nearly all in practice, take a shorter way (`plain.py`); the rest goes through the parser.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.index.bulk_parse import Plain, read_plain
from tidings.query.conjunctions import Conjunctions
from tidings.query.dnf import Conjunction, Place, Query
from tidings.query.geo.geometry import areas, distinct_regions
from tidings.query.residual import ProgramWriter
from tidings.query.table import Refused, parse_rows
from tidings.text.vocabulary import Interner, LayeredVocabulary, PackedTerms


@dataclass(frozen=True, slots=True)
class Compiled:
    """Conjunctions of the accepted subscriptions (`rows` of the table, in order) and the refused ones."""

    conjunctions: Conjunctions
    rows: NDArray[np.int64]
    refused: tuple[Refused, ...]


class GrowingVocabulary:
    """Known terms keep their number; new ones get the next. Stop words get none: plain queries ignore them."""

    def __init__(self, known: LayeredVocabulary | None = None, known_count: int = 0) -> None:
        self._known = known
        self._known_count = known_count
        self.added = Interner()

    def __len__(self) -> int:
        return self._known_count + len(self.added)

    def number(self, term: str) -> int:
        """The number of any term, stop words of phrases included."""
        return int(self._numbers([term.encode()])[0])

    def text_of(self, numbers: NDArray[np.uint32]) -> list[bytes]:
        """The terms that have these numbers."""
        added = self.added.terms()
        old, split = self._known, self._known_count
        return [added[n - split - 1] if old is None or n > split else old.text_of(n) for n in numbers.tolist()]

    def find(self, packed: PackedTerms) -> NDArray[np.uint32]:
        terms = packed.each()
        found = np.zeros(len(terms), np.uint32)
        wanted = [place for place, term in enumerate(terms) if term and not term.startswith(b".")]
        found[wanted] = self._numbers([terms[place] for place in wanted])
        return found

    def _numbers(self, terms: Sequence[bytes]) -> NDArray[np.uint32]:
        found = self._known.numbers(terms) if self._known is not None else np.zeros(len(terms), np.uint32)
        new = np.flatnonzero(found == 0)
        found[new] = self.added.numbers([terms[place] for place in new.tolist()]) + np.uint32(self._known_count)
        return found


def compile_subscriptions(table: pa.Table, vocabulary: GrowingVocabulary) -> Compiled:
    """Compile a table with `query` and optionally `region` (west, south, east, north); the ids are the caller's."""
    queries = table.column("query").combine_chunks().cast(pa.string())
    regions = table.column("region").combine_chunks() if "region" in table.column_names else None
    plain = read_plain(queries, regions, vocabulary)
    parsed, refused = parse_rows(queries, regions, np.flatnonzero(plain.sizes == 0))
    return _assemble(plain, parsed, refused, vocabulary)


def _assemble(
    plain: Plain, parsed: dict[int, Query], refused: list[Refused], vocabulary: GrowingVocabulary
) -> Compiled:
    """Number the accepted subscriptions in the order of their rows; the plain ones' conjunctions come first."""
    writer = ProgramWriter(vocabulary.number)
    rows = np.sort(np.concatenate([np.flatnonzero(plain.sizes), np.fromiter(parsed, np.int64, len(parsed))]))
    plain_rows, plain_lengths = plain.conjunctions()
    others = [(row, conjunction) for row, query in parsed.items() for conjunction in query.conjunctions]
    other_terms = [writer.terms(conjunction) for _, conjunction in others]
    programs = [writer.program(conjunction) for _, conjunction in others]
    lengths = np.concatenate([plain_lengths, np.array([len(t) for t in other_terms], np.int64)])
    owners = np.concatenate([plain_rows, np.array([row for row, _ in others], np.int64)])
    anchors = _anchors([conjunction for _, conjunction in others], writer)
    placed, boxes = _plain_regions(plain, writer)
    regions, new_row = distinct_regions(np.concatenate([writer.regions(), boxes]))
    conjunctions = Conjunctions(
        terms=np.concatenate([plain.terms, np.array([t for ts in other_terms for t in ts], np.uint32)]),
        starts=np.concatenate([np.zeros(1, np.uint64), np.cumsum(lengths).astype(np.uint64)]),
        owner=np.searchsorted(rows, owners).astype(np.uint32),
        program=np.concatenate([np.zeros(len(plain_rows), np.uint32), np.array(programs, np.uint32)]),
        programs=[program.renumbered(int, lambda region: int(new_row[region])) for program in writer.programs],
        regions=regions,
        anchor_region=np.append(new_row, -1)[np.concatenate([placed[plain_rows], np.array(anchors, np.int64)])],
    )
    return Compiled(conjunctions, rows, tuple(refused))


def _plain_regions(plain: Plain, writer: ProgramWriter) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(the region of every plain row or -1, the boxes among them): boxes come behind all regions that are written."""
    placed = np.full(len(plain.sizes), -1)
    for row, place in plain.places.items():
        placed[row] = writer.region(place)
    boxed = np.flatnonzero((plain.sizes > 0) & ~np.isnan(plain.boxes[:, 0]))
    placed[boxed] = len(writer.regions()) + np.arange(len(boxed))
    return placed, plain.boxes[boxed]


def _anchors(conjunctions: Sequence[Conjunction], writer: ProgramWriter) -> list[int]:
    """For each the smallest region it requires, or -1."""
    required = [[writer.region(r) for r in one.required if isinstance(r, Place)] for one in conjunctions]
    area = areas(writer.regions())
    return [min(regions, key=lambda r: (area[r], r), default=-1) for regions in required]
