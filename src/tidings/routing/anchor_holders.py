"""The matchers that hold each anchor, and how many of its conjunctions each of them has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

COPY_BIT = np.uint32(1 << 31)  # of the matcher: each holder of the anchor has a copy of all its conjunctions
MATCHER_MASK = np.uint32((1 << 31) - 1)


@dataclass(frozen=True, slots=True)
class AnchorHolders:
    """Term t has the rows ``starts[t]:starts[t + 1]`` of `holders`: (matcher, number of conjunctions), by matcher."""

    starts: NDArray[np.uint32]
    holders: NDArray[np.uint32]

    @classmethod
    def of(
        cls, anchors: Iterable[tuple[int, NDArray[np.uint32], NDArray[np.uint32]]], is_split: NDArray[np.uint8]
    ) -> AnchorHolders:
        """Build the table from (matcher, anchors, conjunctions per anchor) of every segment.

        `is_split` flags hot terms: each of their holders has a copy of all their conjunctions.
        """
        parts = [(terms.astype(np.uint64) << np.uint64(32) | np.uint64(n), counts) for n, terms, counts in anchors]
        nothing = np.zeros(0, np.uint64)
        keys, rows = np.unique(np.concatenate([nothing, *(keys for keys, _ in parts)]), return_inverse=True)
        counts = np.bincount(rows, np.concatenate([nothing, *(counts for _, counts in parts)]), len(keys))
        terms = (keys >> np.uint64(32)).astype(np.int64)
        matchers = keys.astype(np.uint32) | np.where(is_split[terms], COPY_BIT, np.uint32(0))
        starts = np.concatenate([[0], np.cumsum(np.bincount(terms, minlength=len(is_split)))])
        return cls(starts.astype(np.uint32), np.column_stack([matchers, counts.astype(np.uint32)]))

    def without_counts(self) -> AnchorHolders:
        """Return the table with one conjunction for every holder."""
        return AnchorHolders(self.starts, np.column_stack([self.holders[:, 0], np.ones(len(self.holders), np.uint32)]))

    def terms(self) -> NDArray[np.int64]:
        """Return the anchor of each row of `holders`."""
        return np.searchsorted(self.starts, np.arange(len(self.holders)), side="right") - 1
