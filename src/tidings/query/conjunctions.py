"""Conjunctions as term numbers: what the parser's output becomes, and what segments are built from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.query.geo.geometry import distinct_regions
from tidings.query.residual import BaseProgram
from tidings.ragged import distinct, take_rows

Words = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Conjunctions:
    """What a segment is built from: conjunction i of subscription `owner[i]` needs ``terms[starts[i]:starts[i+1]]``.

    `anchor_region[i]` is the smallest region it requires (-1: none), which it is found by. `program[i]` numbers the
    base program it needs besides (0: none), from 1 on in `programs`; words and one region alone need none.
    `regions` are the rows of all regions (`shape.py`).
    """

    terms: Words
    starts: NDArray[np.uint64]
    owner: Words
    program: Words
    programs: Sequence[BaseProgram]
    regions: NDArray[np.float64]
    anchor_region: NDArray[np.int64]

    @property
    def has_phrases(self) -> bool:
        """Whether posts must be received with their gaps."""
        return any(program.phrases for program in self.programs)

    def __len__(self) -> int:
        return len(self.owner)

    def programs_in_use(self) -> list[BaseProgram]:
        return [self.programs[number - 1] for number in np.unique(self.program).tolist() if number]

    def select(self, rows: NDArray[np.intp]) -> Conjunctions:
        """Some conjunctions, in this order."""
        terms, starts = take_rows(self.terms, self.starts[:-1][rows], np.diff(self.starts)[rows])
        return replace(
            self,
            terms=terms,
            starts=starts,
            owner=self.owner[rows],
            program=self.program[rows],
            anchor_region=self.anchor_region[rows],
        )

    def compacted(self) -> Conjunctions:
        """The same conjunctions without the programs and regions that none of them uses."""
        used = np.unique(self.program[self.program > 0])
        programs = [self.programs[number - 1] for number in used.tolist()]
        named = np.array([place for program in programs for _, place in program.regions], np.int64)
        places = distinct(np.concatenate([named, self.anchor_region[self.anchor_region >= 0]]))
        is_shape = np.isnan(self.regions[places, 0])
        heights = np.where(is_shape, self.regions[places, 2], 1).astype(np.int64)
        ends = np.cumsum(heights)
        rows = np.repeat(places - ends + heights, heights) + np.arange(int(heights.sum()))
        moved = np.full(len(self.regions) + 1, -1)  # the last is where -1 leads
        moved[places] = ends - heights
        return replace(
            self,
            program=np.where(self.program > 0, np.searchsorted(used, self.program) + 1, 0).astype(np.uint32),
            programs=[program.renumbered(int, lambda place: int(moved[place])) for program in programs],
            regions=self.regions[rows],
            anchor_region=moved[self.anchor_region],
        )

    def by_owner(self) -> Conjunctions:
        """The same conjunctions with those of one owner standing together."""
        return self.select(np.argsort(self.owner, kind="stable"))

    def renumbered_terms(self, new_number: Words) -> Conjunctions:
        """The same conjunctions with the terms they are found by renumbered, not those of their programs."""
        return replace(self, terms=new_number[self.terms])

    def renumbered(self, new_number: Words) -> Conjunctions:
        """The same conjunctions after the terms were renumbered."""
        programs = [p.renumbered(lambda term: int(new_number[term]), int) for p in self.programs]
        return replace(self, terms=new_number[self.terms], programs=programs)


def joined(parts: Sequence[tuple[Conjunctions, pa.Array]]) -> tuple[Conjunctions, pa.Array]:
    """Several sets of conjunctions, with the ids of their owners, as one; owners of the same id become one, and so do
    equal regions: what lies in several shards must not grow each time they are merged."""
    present = [np.unique(conjunctions.owner, return_inverse=True) for conjunctions, _ in parts]
    ids = pa.concat_arrays([ids.take(pa.array(owner)) for (owner, _), (_, ids) in zip(present, parts, strict=True)])
    encoded = ids.dictionary_encode()
    number_of = encoded.indices.to_numpy(zero_copy_only=False).astype(np.uint32)
    owner_bases = np.cumsum([0, *(len(owner) for owner, _ in present)])
    region_bases = np.cumsum([0, *(len(conjunctions.regions) for conjunctions, _ in parts)])
    regions, new_row = distinct_regions(np.concatenate([c.regions for c, _ in parts]))
    programs: dict[BaseProgram, int] = {}
    moved = [_moved(c, new_row[base:], programs) for (c, _), base in zip(parts, region_bases, strict=False)]
    lengths = np.concatenate([np.diff(c.starts) for c, _ in parts])
    whole = Conjunctions(
        terms=np.concatenate([c.terms for c, _ in parts]),
        starts=np.concatenate([np.zeros(1, np.uint64), np.cumsum(lengths, dtype=np.uint64)]),
        owner=np.concatenate([number_of[base + place] for base, (_, place) in zip(owner_bases, present, strict=False)]),
        program=np.concatenate([program for program, _ in moved]),
        programs=list(programs),
        regions=regions,
        anchor_region=np.concatenate([anchor for _, anchor in moved]),
    )
    return whole.by_owner(), encoded.dictionary


def _moved(
    part: Conjunctions, new_row: NDArray[np.int64], programs: dict[BaseProgram, int]
) -> tuple[Words, NDArray[np.int64]]:
    """(the programs of a part numbered among all programs, its anchor regions numbered among all regions)."""
    rows = new_row[: len(part.regions)].tolist()
    shifted = [p.renumbered(int, rows.__getitem__) for p in part.programs]
    numbers = np.array([0, *(programs.setdefault(p, len(programs) + 1) for p in shifted)], np.uint32)
    anchors = part.anchor_region.copy()
    anchors[anchors >= 0] = new_row[anchors[anchors >= 0]]
    return numbers[part.program], anchors
