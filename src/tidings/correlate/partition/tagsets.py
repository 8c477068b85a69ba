"""What partitions are learned from: the distinct tag sets of a window, and how many posts have each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidings.correlate.partition.tagset_trie import Nodes
from tidings.ragged import ranked, take_rows

_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class TagSets:
    """Row i has the ascending tags ``tags[starts[i]:starts[i + 1]]``; `weights` says how many posts it stands for."""

    tags: NDArray[np.uint32]
    starts: NDArray[np.uint64]
    weights: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def tag_count(self) -> int:
        """One more than the largest tag."""
        return int(self.tags.max()) + 1 if len(self.tags) else 0

    @classmethod
    def distinct(cls, tags: NDArray[np.uint32], starts: NDArray[np.uint64]) -> TagSets:
        """The different rows, in the order they first occur, with the number of times they do."""
        nodes = Nodes().number(tags, starts)
        counts = np.bincount(nodes)
        firsts = np.zeros(len(counts), np.int64)
        firsts[nodes[::-1]] = np.arange(len(nodes))[::-1]  # of rows with the same number the first is written last
        rows = np.sort(firsts[counts > 0])
        return cls(*take_rows(tags, starts[rows], np.diff(starts)[rows]), counts[nodes[rows]].astype(np.int64))

    def united(self) -> TagSets:
        """The different rows with their weights added up; those that come to nothing are left out."""
        nodes = Nodes().number(self.tags, self.starts)
        _, first, inverse = np.unique(nodes, return_index=True, return_inverse=True)
        weights = np.bincount(inverse, self.weights, len(first)).astype(np.int64)
        rows = first[weights != 0]
        tags, starts = take_rows(self.tags, self.starts[rows], np.diff(self.starts)[rows])
        return TagSets(tags, starts, weights[weights != 0])

    def take(self, rows: NDArray[np.integer]) -> TagSets:
        return TagSets(*take_rows(self.tags, self.starts[rows], np.diff(self.starts)[rows]), self.weights[rows])

    def shares(self, partitioners: int) -> list[TagSets]:
        """The sets shared out by a hash of the whole set: equal ones meet the same partitioner in every window."""
        hashes = np.zeros(len(self), np.uint64)
        rows = np.repeat(np.arange(len(self)), np.diff(self.starts).astype(np.int64))
        mixed = (self.tags.astype(np.uint64) + np.uint64(1)) * _MIX
        np.add.at(hashes, rows, mixed ^ (mixed >> np.uint64(29)))
        share = ((hashes * _MIX) >> np.uint64(33)) % np.uint64(partitioners)
        return [self.take(np.flatnonzero(share == number)) for number in range(partitioners)]

    @classmethod
    def together(cls, parts: list[TagSets]) -> TagSets:
        """All rows of several, one after another; equal ones are not united."""
        lengths = np.concatenate([np.zeros(1, np.uint64), *(np.diff(part.starts) for part in parts)])
        tags = np.concatenate([np.zeros(0, np.uint32), *(part.tags for part in parts)])
        weights = np.concatenate([np.zeros(0, np.int64), *(part.weights for part in parts)])
        return cls(tags, np.cumsum(lengths, dtype=np.uint64), weights)

    def numbered(self) -> tuple[TagSets, NDArray[np.uint32]]:
        """The same rows with tags numbered from 0 on, and which tag each number is."""
        names, tags = ranked(self.tags)
        return TagSets(tags, self.starts, self.weights), names
