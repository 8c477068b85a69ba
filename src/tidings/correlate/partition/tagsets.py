"""The distinct tag sets of a window with their number of posts, from which tag plans are learned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidings.correlate.partition.tagset_trie import TagSetTrie
from tidings.ragged import rank_values, take_rows

_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class TagSets:
    """Row i has the ascending tags ``tags[starts[i]:starts[i + 1]]`` and stands for `weights[i]` posts."""

    tags: NDArray[np.uint32]
    starts: NDArray[np.uint64]
    weights: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def tag_count(self) -> int:
        """Return the largest tag plus 1."""
        return int(self.tags.max()) + 1 if len(self.tags) else 0

    @classmethod
    def deduplicate(cls, tags: NDArray[np.uint32], starts: NDArray[np.uint64]) -> TagSets:
        """Return the distinct rows, in order of first occurrence, weighted by their occurrences."""
        nodes = TagSetTrie().find_or_add_rows(tags, starts)
        counts = np.bincount(nodes)
        firsts = np.zeros(len(counts), np.int64)
        firsts[nodes[::-1]] = np.arange(len(nodes))[::-1]  # reversed, so that the first row of a node is written last
        rows = np.sort(firsts[counts > 0])
        return cls(*take_rows(tags, starts[rows], np.diff(starts)[rows]), counts[nodes[rows]].astype(np.int64))

    def combine_equal(self) -> TagSets:
        """Return the distinct rows with the sums of their weights, without rows whose sum is 0."""
        nodes = TagSetTrie().find_or_add_rows(self.tags, self.starts)
        _, first, inverse = np.unique(nodes, return_index=True, return_inverse=True)
        weights = np.bincount(inverse, self.weights, len(first)).astype(np.int64)
        rows = first[weights != 0]
        tags, starts = take_rows(self.tags, self.starts[rows], np.diff(self.starts)[rows])
        return TagSets(tags, starts, weights[weights != 0])

    def take(self, rows: NDArray[np.integer]) -> TagSets:
        return TagSets(*take_rows(self.tags, self.starts[rows], np.diff(self.starts)[rows]), self.weights[rows])

    def split_by_hash(self, partitioners: int) -> list[TagSets]:
        """Split the rows by a hash of the tag set, so that equal sets go to the same partitioner in every window."""
        hashes = np.zeros(len(self), np.uint64)
        rows = np.repeat(np.arange(len(self)), np.diff(self.starts).astype(np.int64))
        mixed = (self.tags.astype(np.uint64) + np.uint64(1)) * _MIX
        np.add.at(hashes, rows, mixed ^ (mixed >> np.uint64(29)))
        share = ((hashes * _MIX) >> np.uint64(33)) % np.uint64(partitioners)
        return [self.take(np.flatnonzero(share == number)) for number in range(partitioners)]

    @classmethod
    def concat(cls, parts: list[TagSets]) -> TagSets:
        """Return all rows, one after another; equal ones are not combined."""
        lengths = np.concatenate([np.zeros(1, np.uint64), *(np.diff(part.starts) for part in parts)])
        tags = np.concatenate([np.zeros(0, np.uint32), *(part.tags for part in parts)])
        weights = np.concatenate([np.zeros(0, np.int64), *(part.weights for part in parts)])
        return cls(tags, np.cumsum(lengths, dtype=np.uint64), weights)

    def renumber(self) -> tuple[TagSets, NDArray[np.uint32]]:
        """Return the rows with tags numbered from 0, and the original tag of each number."""
        original, tags = rank_values(self.tags)
        return TagSets(tags, self.starts, self.weights), original
