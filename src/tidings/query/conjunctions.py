"""Conjunctions as arrays of term numbers: compiled from parsed queries, and the input of segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.query.geo.geometry import deduplicate_regions
from tidings.query.residual import BaseResidual
from tidings.query.term_order import sort_terms
from tidings.ragged import sorted_unique, take_rows

TermArray = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Conjunctions:
    """Conjunction i of subscription `subscription[i]` requires ``terms[starts[i]:starts[i+1]]``.

    Once `order_terms` has been called, its terms are distinct and the rarest comes first: the anchor. Segments keep
    this order, so that an anchor stays the same until terms are ordered again.

    `anchor_region[i]` is the smallest region it requires (-1: none); it is filed under this region. `residual[i]` is
    the number of its base residual, from 1 on in `residuals` (0: none, if it is only terms and one region).
    `regions` are the rows of all regions (`geo/geometry.py`).
    """

    terms: TermArray
    starts: NDArray[np.uint64]
    subscription: TermArray
    residual: TermArray
    residuals: Sequence[BaseResidual]
    regions: NDArray[np.float64]
    anchor_region: NDArray[np.int64]

    @property
    def has_phrases(self) -> bool:
        """Whether posts must be analyzed with their gaps."""
        return any(residual.phrase_terms() for residual in self.residuals)

    def __len__(self) -> int:
        return len(self.subscription)

    def used_residuals(self) -> list[BaseResidual]:
        """Return the residuals that conjunctions refer to, by number."""
        return [self.residuals[number - 1] for number in np.unique(self.residual).tolist() if number]

    def select(self, rows: NDArray[np.intp]) -> Conjunctions:
        """Return the conjunctions of these rows, in this order."""
        terms, starts = take_rows(self.terms, self.starts[:-1][rows], np.diff(self.starts)[rows])
        return replace(
            self,
            terms=terms,
            starts=starts,
            subscription=self.subscription[rows],
            residual=self.residual[rows],
            anchor_region=self.anchor_region[rows],
        )

    def compact(self) -> Conjunctions:
        """Return the same conjunctions without unused residuals and regions."""
        used = np.unique(self.residual[self.residual > 0])
        residuals = self.used_residuals()
        in_residuals = np.array([region for residual in residuals for region in residual.region_rows()], np.int64)
        firsts = sorted_unique(np.concatenate([in_residuals, self.anchor_region[self.anchor_region >= 0]]))
        is_shape = np.isnan(self.regions[firsts, 0])
        heights = np.where(is_shape, self.regions[firsts, 2], 1).astype(np.int64)
        ends = np.cumsum(heights)
        rows = np.repeat(firsts - ends + heights, heights) + np.arange(int(heights.sum()))
        moved = np.full(len(self.regions) + 1, -1)  # the last entry maps -1 to -1
        moved[firsts] = ends - heights
        return replace(
            self,
            residual=np.where(self.residual > 0, np.searchsorted(used, self.residual) + 1, 0).astype(np.uint32),
            residuals=[residual.renumber(int, lambda first: int(moved[first])) for residual in residuals],
            regions=self.regions[rows],
            anchor_region=moved[self.anchor_region],
        )

    def order_terms(self, rarity: NDArray[np.uint32]) -> Conjunctions:
        """Return the same conjunctions with distinct terms, the rarest first; `rarity` has a value for each of `terms`.

        Equal terms have equal values, different ones different values.
        """
        terms, starts, ends = self.terms.copy(), self.starts[:-1], self.starts[1:].copy()
        sort_terms(terms, rarity.copy(), starts, ends)
        if (ends < self.starts[1:]).any():
            terms, all_starts = take_rows(terms, starts, ends - starts)
            return replace(self, terms=terms, starts=all_starts)
        return replace(self, terms=terms)

    def sort_by_subscription(self) -> Conjunctions:
        """Return the same conjunctions, those of each subscription next to each other."""
        return self.select(np.argsort(self.subscription, kind="stable"))

    def renumber_terms(self, new_number: TermArray) -> Conjunctions:
        """Return the same conjunctions with all terms renumbered, those of residuals included."""
        residuals = [residual.renumber(lambda term: int(new_number[term]), int) for residual in self.residuals]
        return replace(self, terms=new_number[self.terms], residuals=residuals)


def concatenate(parts: Sequence[tuple[Conjunctions, pa.Array]]) -> tuple[Conjunctions, pa.Array]:
    """Return several sets of conjunctions, with the ids of their subscriptions, as one.

    Subscriptions with the same id become one, and so do equal regions: otherwise what lies in several shards would grow
    with every merge.
    """
    present = [np.unique(conjunctions.subscription, return_inverse=True) for conjunctions, _ in parts]
    ids = pa.concat_arrays([ids.take(pa.array(rows)) for (rows, _), (_, ids) in zip(present, parts, strict=True)])
    encoded = ids.dictionary_encode()
    number_of = encoded.indices.to_numpy(zero_copy_only=False).astype(np.uint32)
    bases = np.cumsum([0, *(len(rows) for rows, _ in present)])
    subscriptions = [number_of[base + local] for base, (_, local) in zip(bases, present, strict=False)]
    region_bases = np.cumsum([0, *(len(conjunctions.regions) for conjunctions, _ in parts)])
    regions, new_row = deduplicate_regions(np.concatenate([c.regions for c, _ in parts]))
    residuals: dict[BaseResidual, int] = {}
    moved = [_renumber_part(c, new_row[base:], residuals) for (c, _), base in zip(parts, region_bases, strict=False)]
    lengths = np.concatenate([np.diff(c.starts) for c, _ in parts])
    whole = Conjunctions(
        terms=np.concatenate([c.terms for c, _ in parts]),
        starts=np.concatenate([np.zeros(1, np.uint64), np.cumsum(lengths, dtype=np.uint64)]),
        subscription=np.concatenate(subscriptions),
        residual=np.concatenate([residual for residual, _ in moved]),
        residuals=list(residuals),
        regions=regions,
        anchor_region=np.concatenate([anchor for _, anchor in moved]),
    )
    return whole.sort_by_subscription(), encoded.dictionary


def _renumber_part(
    part: Conjunctions, new_row: NDArray[np.int64], residuals: dict[BaseResidual, int]
) -> tuple[TermArray, NDArray[np.int64]]:
    """Return (residual numbers among all residuals, anchor regions among all regions) of a part."""
    rows = new_row[: len(part.regions)].tolist()
    moved = [residual.renumber(int, rows.__getitem__) for residual in part.residuals]
    numbers = np.array([0, *(residuals.setdefault(r, len(residuals) + 1) for r in moved)], np.uint32)
    anchors = part.anchor_region.copy()
    anchors[anchors >= 0] = new_row[anchors[anchors >= 0]]
    return numbers[part.residual], anchors
