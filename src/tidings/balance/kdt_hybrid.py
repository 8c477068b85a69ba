"""The hybrid kdᵗ-tree (PS²Stream, algorithm 1): split by space, or by text where that gives the smaller load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from tidings.balance.kdt_tree import KdtNode
from tidings.balance.leaf_assignment import load_ratio, merge_nodes
from tidings.balance.term_assignment import TermSplitter, split_by_metric
from tidings.errors import InputError

_MAX_THETA = 1024


@dataclass(frozen=True, slots=True)
class HybridSettings:
    """The parameters of algorithm 1, named by the letters of the paper. Raises InputError if one is out of range."""

    sigma: float = 1.2  # maximum ratio of the largest to the smallest load
    delta: float = 0.6  # from this similarity of posts and subscriptions on, a node is not yet split by text
    epsilon: float = 0.02  # smaller differences of similarities do not count
    theta: int = 16  # maximum number of nodes per matcher
    text: TermSplitter = split_by_metric

    def __post_init__(self) -> None:
        ranges = {"sigma": (1.0, inf), "delta": (0.0, 1.0), "epsilon": (0.0, 1.0), "theta": (1, _MAX_THETA)}
        for name, (low, high) in ranges.items():
            if not low <= getattr(self, name) <= high:
                limits = f"at least {low:g}" if high == inf else f"from {low:g} to {high:g}"
                raise InputError(f"{name}: {getattr(self, name):g} is out of range. Choose a number {limits}.")

    def to_dict(self) -> dict[str, float]:
        return {"sigma": self.sigma, "delta": self.delta, "epsilon": self.epsilon, "theta": self.theta}


DEFAULT_SETTINGS = HybridSettings()


@dataclass
class _Leaves:
    """N_t, the nodes to split by text, and N_s, where text or space may be better."""

    by_text: list[KdtNode]
    either: list[KdtNode]

    def __len__(self) -> int:
        return len(self.by_text) + len(self.either)

    def all(self) -> list[KdtNode]:
        return [*self.by_text, *self.either]

    def is_text(self, node: KdtNode) -> bool:
        return any(leaf is node for leaf in self.by_text)

    def replace(self, node: KdtNode, parts: Sequence[KdtNode]) -> None:
        for leaves in (self.by_text, self.either):
            if any(leaf is node for leaf in leaves):
                leaves[:] = [leaf for leaf in leaves if leaf is not node] + list(parts)


def partition_hybrid(
    root: KdtNode, matchers: int, settings: HybridSettings = DEFAULT_SETTINGS
) -> list[tuple[KdtNode, int]]:
    """Return the leaves of the tree, each with its matcher."""
    leaves = find_subspaces(root, matchers * settings.theta, settings)
    if len(leaves) < matchers:
        nodes = leaves.all()
        counts = compute_number_partitions(nodes, [leaves.is_text(node) for node in nodes], matchers, settings)
        for node, count in zip(nodes, counts, strict=True):
            leaves.replace(node, partition_node(node, leaves.is_text(node), count, settings))
    while True:
        nodes = leaves.all()
        chosen, loads = merge_nodes(nodes, matchers)
        if load_ratio(loads) <= settings.sigma or len(nodes) >= matchers * settings.theta:
            return list(zip(nodes, chosen.tolist(), strict=True))
        heaviest = max(nodes, key=lambda node: node.load)
        parts = partition_node(heaviest, leaves.is_text(heaviest), 2, settings)
        if len(parts) < 2 or any(not len(part.conjunctions) for part in parts):
            return list(zip(nodes, chosen.tolist(), strict=True))  # it cannot be split further
        leaves.replace(heaviest, parts)


def find_subspaces(root: KdtNode, max_nodes: int, settings: HybridSettings) -> _Leaves:
    """Phase one, lines 1 to 12: split while a part has less similar posts and subscriptions than the whole."""
    undecided, leaves = [root], _Leaves([], [])
    while undecided:
        node = undecided.pop(0)
        similarity = node.similarity()
        if similarity >= settings.delta:
            leaves.either.append(node)
            continue
        cuts = [halves for axis in (0, 1) if (halves := node.cut(axis)) is not None]
        smallest = [_smallest_similarity(halves, similarity) for halves in cuts]
        is_same = not cuts or abs(min(smallest) - similarity) <= settings.epsilon
        if is_same or len(undecided) + len(leaves) + 2 > max_nodes:
            leaves.by_text.append(node)
        else:
            undecided += cuts[int(np.argmin(smallest))]
    return leaves


def compute_number_partitions(
    nodes: Sequence[KdtNode], is_text: Sequence[bool], matchers: int, settings: HybridSettings
) -> list[int]:
    """Return the number of parts of each node, `matchers` in total, with the smallest sum of loads.

    ``L[i, j]`` is the smallest sum for the first i nodes in j parts, ``C[i, k]`` that of node i in k parts:
    ``L[i, j] = min over k of L[i - 1, j - k] + C[i, k]``.
    """
    if len(nodes) == 1:
        return [matchers]
    max_parts = matchers - len(nodes) + 1
    cost = [
        [sum(part.load for part in partition_node(node, text, k, settings)) for k in range(1, max_parts + 1)]
        for node, text in zip(nodes, is_text, strict=True)
    ]
    smallest = np.full((len(nodes) + 1, matchers + 1), np.inf)
    chosen = np.zeros((len(nodes) + 1, matchers + 1), np.int64)
    smallest[0, 0] = 0
    for i in range(1, len(nodes) + 1):
        for j in range(i, matchers + 1):
            sums = [smallest[i - 1, j - k] + cost[i - 1][k - 1] for k in range(1, min(max_parts, j) + 1)]
            chosen[i, j] = int(np.argmin(sums)) + 1
            smallest[i, j] = min(sums)
    counts, left = [], matchers
    for i in range(len(nodes), 0, -1):
        counts.append(int(chosen[i, left]))
        left -= counts[-1]
    return counts[::-1]


def partition_node(node: KdtNode, is_text: bool, parts: int, settings: HybridSettings) -> list[KdtNode]:
    """PartitionNode: by text in N_t and where the node was split by text before; else the cheaper of both.

    Space is halved, and both halves are partitioned in the same way, so that a node can be split by space and then by
    text.
    """
    if parts == 1:
        return [node]
    by_text = node.split_by_text(parts, settings.text)
    if is_text or node.terms is not None:
        return by_text
    halves = node.halve(parts // 2 / parts)
    if halves is None:
        return by_text
    counts = (parts // 2, parts - parts // 2)
    by_space = [
        part
        for half, count in zip(halves, counts, strict=True)
        for part in partition_node(half, False, count, settings)
    ]
    return by_space if _sum_loads(by_space) <= _sum_loads(by_text) else by_text


def _smallest_similarity(halves: tuple[KdtNode, KdtNode], whole: float) -> float:
    """Return α of a cut. A half without posts or conjunctions has no similarity and is ignored."""
    return min((half.similarity() for half in halves if len(half.posts) and len(half.conjunctions)), default=whole)


def _sum_loads(nodes: Sequence[KdtNode]) -> float:
    return sum(node.load for node in nodes)
