"""MergeNodesIntoPartitions (PS²Stream, algorithm 1, line 18): assign leaf nodes to matchers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tidings.balance.kdt_tree import KdtNode
from tidings.plan.load_model import LoadModel


class MatcherContents:
    """The posts and conjunctions of each matcher as sets: what several of its nodes share counts once."""

    def __init__(self, matchers: int, posts: int, conjunctions: int, model: LoadModel) -> None:
        self._posts, self._conjunctions = np.zeros((matchers, posts), bool), np.zeros((matchers, conjunctions), bool)
        self._counts = np.zeros((matchers, 2), np.int64)
        self._model = model
        self.loads = np.zeros(matchers)

    def loads_with(self, posts: NDArray[np.intp], conjunctions: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the load that each matcher would have with these posts and conjunctions in addition."""
        sent = self._counts[:, 0] + len(posts) - self._posts[:, posts].sum(axis=1)
        held = self._counts[:, 1] + len(conjunctions) - self._conjunctions[:, conjunctions].sum(axis=1)
        return np.array([self._model.load(o, q) for o, q in zip(sent.tolist(), held.tolist(), strict=True)])

    def add(self, matcher: int, posts: NDArray[np.intp], conjunctions: NDArray[np.intp]) -> None:
        self._posts[matcher, posts] = True
        self._conjunctions[matcher, conjunctions] = True
        self._counts[matcher] = self._posts[matcher].sum(), self._conjunctions[matcher].sum()
        self.loads[matcher] = self._model.load(*self._counts[matcher].tolist())


def merge_nodes(nodes: Sequence[KdtNode], matchers: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the matcher of each node and the load of each matcher.

    In descending order of load, a node goes to the matcher whose load it raises least, unless that raises the ratio
    of the largest to the smallest load; then it goes to the matcher with the smallest load.
    """
    grid = nodes[0].grid
    contents = MatcherContents(matchers, len(grid.workload.positions), len(grid.workload.anchors), grid.model)
    routed = [node.routed_posts() for node in nodes]
    node_loads = [grid.model.load(len(posts), len(n.conjunctions)) for posts, n in zip(routed, nodes, strict=True)]
    chosen = np.zeros(len(nodes), np.int64)
    offset = min((load for load in node_loads if load > 0), default=1.0)  # keeps the ratio finite for empty matchers
    for number in np.argsort(-np.array(node_loads), kind="stable").tolist():
        after = contents.loads_with(routed[number], nodes[number].conjunctions)
        matcher = int(np.argmin(after - contents.loads))
        changed = contents.loads.copy()
        changed[matcher] = after[matcher]
        if load_ratio(changed + offset) > load_ratio(contents.loads + offset):
            matcher = int(np.argmin(contents.loads))
        contents.add(matcher, routed[number], nodes[number].conjunctions)
        chosen[number] = matcher
    return chosen, contents.loads


def load_ratio(loads: NDArray[np.float64]) -> float:
    """Return the load balancing factor: the largest load divided by the smallest."""
    smallest = float(loads.min())
    return float(loads.max()) / smallest if smallest > 0 else float("inf")
