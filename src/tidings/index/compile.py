"""From subscriptions to conjunctions of term numbers. What cannot be understood is set aside with its reason.

Queries of plain words, nearly all in practice, are received like posts, a million in a few seconds; the rest goes
through the parser. Both ways agree, which is tested.
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
from tidings.index.conjunctions import Conjunctions
from tidings.index.program import ProgramWriter
from tidings.index.shape import areas
from tidings.query.normal import Conjunction, Place, Query
from tidings.query.rows import Refused, parse_rows
from tidings.receive.receiver import Receiver
from tidings.receive.vocabulary import Interner, LayeredVocabulary, PackedTerms

_PLAIN = r"^[A-Za-z0-9]{1,64}( +[A-Za-z0-9]{1,64})*$"
_OPERATOR = r"(^| )(OR|NOT)( |$)"


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
    regions = table.column("region").to_pylist() if "region" in table.column_names else None
    terms, sizes = plain_terms(queries, regions, vocabulary)
    parsed, refused = parse_rows(queries, regions, np.flatnonzero(sizes == 0))
    return _assemble(terms, sizes, parsed, refused, vocabulary)


def plain_terms(
    queries: pa.Array, regions: Sequence[object] | None, vocabulary: GrowingVocabulary
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """(the terms of all plain queries one after another, how many each row has: 0 for those left to the parser)."""
    plain = _is_plain(queries)
    if regions is not None:
        plain &= np.array([value is None for value in regions], bool)
    received = Receiver(vocabulary).receive(queries.filter(pa.array(plain)))
    found = np.zeros(len(queries), np.int64)
    found[plain] = received.bounds[:, 1].astype(np.int64) - received.bounds[:, 0]
    keep = (found > 0) & (found <= QUERY_LIMITS.leaves)
    chosen = received.bounds[keep[plain]].astype(np.int64)
    terms, _ = take_rows(received.terms, chosen[:, 0], chosen[:, 1] - chosen[:, 0])
    return terms, np.where(keep, found, 0)


def _is_plain(queries: pa.Array) -> NDArray[np.bool_]:
    short = pc.less_equal(pc.utf8_length(queries), QUERY_LIMITS.characters)
    words_only = pc.and_(short, pc.match_substring_regex(queries, _PLAIN))
    plain = pc.and_not(words_only, pc.match_substring_regex(queries, _OPERATOR))
    return np.array(pc.fill_null(plain, False).to_numpy(zero_copy_only=False), bool)


def _assemble(
    terms: NDArray[np.uint32],
    sizes: NDArray[np.int64],
    parsed: dict[int, Query],
    refused: list[Refused],
    vocabulary: GrowingVocabulary,
) -> Compiled:
    """Number the accepted subscriptions in the order of their rows; the plain ones' conjunctions come first."""
    writer = ProgramWriter(vocabulary.number)
    rows = np.sort(np.concatenate([np.flatnonzero(sizes), np.fromiter(parsed, np.int64, len(parsed))]))
    others = [(row, conjunction) for row, query in parsed.items() for conjunction in query.conjunctions]
    other_terms = [writer.terms(conjunction) for _, conjunction in others]
    programs = [writer.program(conjunction) for _, conjunction in others]
    plain = np.flatnonzero(sizes)
    lengths = np.concatenate([sizes[plain], np.array([len(t) for t in other_terms], np.int64)])
    owners = np.concatenate([plain, np.array([row for row, _ in others], np.int64)])
    regions = writer.regions()
    anchors = _anchors([conjunction for _, conjunction in others], writer, areas(regions).tolist())
    conjunctions = Conjunctions(
        terms=np.concatenate([terms, np.array([t for ts in other_terms for t in ts], np.uint32)]),
        starts=np.concatenate([np.zeros(1, np.uint64), np.cumsum(lengths).astype(np.uint64)]),
        owner=np.searchsorted(rows, owners).astype(np.uint32),
        program=np.concatenate([np.zeros(len(plain), np.uint32), np.array(programs, np.uint32)]),
        programs=list(writer.programs),
        regions=regions,
        anchor_region=np.concatenate([np.full(len(plain), -1), np.array(anchors, np.int64)]),
    )
    return Compiled(conjunctions, rows, tuple(refused))


def _anchors(conjunctions: Sequence[Conjunction], writer: ProgramWriter, area: Sequence[float]) -> list[int]:
    """For each the smallest region it requires, or -1: it leads to conjunctions that no word leads to."""
    required = [[writer.region(r) for r in one.required if isinstance(r, Place)] for one in conjunctions]
    return [min(regions, key=lambda r: (area[r], r), default=-1) for regions in required]
