"""MergeNodesIntoPartitions (PS²Stream, algorithm 1, line 18): assign leaf nodes to matchers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tidings.balance.kdt_tree import GridWorkload, KdtNode


class MatcherContents:
    """What each matcher receives and holds; posts and conjunctions that several of its nodes share count once."""

    def __init__(self, matchers: int, grid: GridWorkload) -> None:
        posts, conjunctions = len(grid.workload.positions), len(grid.workload.anchors)
        self._posts, self._conjunctions = np.zeros((matchers, posts), bool), np.zeros((matchers, conjunctions), bool)
        self._counts = np.zeros((4, matchers))  # posts, lookups, hits, conjunctions
        self._model, self._updates = grid.model, grid.workload.updates_per_row
        self.loads = np.zeros(matchers)

    def loads_with(self, node: KdtNode) -> NDArray[np.float64]:
        """Return the load that each matcher would have with this node in addition."""
        work = node.work
        posts = len(work.posts) - self._posts[:, work.posts].sum(axis=1)
        held = len(node.conjunctions) - self._conjunctions[:, node.conjunctions].sum(axis=1)
        added = np.array([posts, np.full(len(posts), work.lookups), np.full(len(posts), work.hits), held])
        return self._load(self._counts + added)

    def add(self, matcher: int, node: KdtNode) -> None:
        self._posts[matcher, node.work.posts] = True
        self._conjunctions[matcher, node.conjunctions] = True
        self._counts[1:3, matcher] += node.work.lookups, node.work.hits
        self._counts[0, matcher] = self._posts[matcher].sum()
        self._counts[3, matcher] = self._conjunctions[matcher].sum()
        self.loads = self._load(self._counts)

    def _load(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        posts, lookups, hits, held = counts
        return self._model.load(posts, lookups, hits, held * self._updates)


def merge_nodes(nodes: Sequence[KdtNode], matchers: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the matcher of each node and the load of each matcher.

    In descending order of load, a node goes to the matcher whose load it raises least, unless that raises the ratio
    of the largest to the smallest load; then it goes to the matcher with the smallest load.
    """
    contents, node_loads = MatcherContents(matchers, nodes[0].grid), [node.load for node in nodes]
    chosen = np.zeros(len(nodes), np.int64)
    offset = min((load for load in node_loads if load > 0), default=1.0)  # keeps the ratio finite for empty matchers
    for number in np.argsort(-np.array(node_loads), kind="stable").tolist():
        after = contents.loads_with(nodes[number])
        matcher = int(np.argmin(after - contents.loads))
        changed = contents.loads.copy()
        changed[matcher] = after[matcher]
        if load_ratio(changed + offset) > load_ratio(contents.loads + offset):
            matcher = int(np.argmin(contents.loads))
        contents.add(matcher, nodes[number])
        chosen[number] = matcher
    return chosen, contents.loads


def load_ratio(loads: NDArray[np.float64]) -> float:
    """Return the load balancing factor: the largest load divided by the smallest."""
    smallest = float(loads.min())
    return float(loads.max()) / smallest if smallest > 0 else float("inf")
