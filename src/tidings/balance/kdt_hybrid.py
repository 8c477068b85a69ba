"""The hybrid kdᵗ-tree (PS²Stream, algorithm 1): space is cut, or words are shared out where that pays more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidings.balance.kdt_tree import Node
from tidings.balance.leaf_assignment import merge_nodes, ratio
from tidings.balance.term_assignment import TextSplit, by_metric


@dataclass(frozen=True, slots=True)
class HybridSettings:
    """The parameters of algorithm 1, by the paper's letters.

    σ: the largest ratio of two workers' loads; δ: from which similarity of posts and subscriptions on words are not
    shared out at once; ε: a difference of similarities that counts as none; θ: the most nodes, for each worker.
    """

    sigma: float = 1.2
    delta: float = 0.6
    epsilon: float = 0.02
    theta: int = 16
    text: TextSplit = by_metric


_DEFAULTS = HybridSettings()


@dataclass
class _Leaves:
    """N_t, whose words are to be shared out, and N_s, where either may be better."""

    by_text: list[Node]
    either: list[Node]

    def __len__(self) -> int:
        return len(self.by_text) + len(self.either)

    def all(self) -> list[Node]:
        return [*self.by_text, *self.either]

    def replace(self, node: Node, parts: Sequence[Node]) -> None:
        for nodes in (self.by_text, self.either):
            if any(one is node for one in nodes):
                nodes[:] = [one for one in nodes if one is not node] + list(parts)


def partition_hybrid(root: Node, workers: int, settings: HybridSettings = _DEFAULTS) -> list[tuple[Node, int]]:
    """The leaves of the tree, each with its worker."""
    leaves = find_subspaces(root, workers * settings.theta, settings)
    if len(leaves) < workers:
        nodes = leaves.all()
        counts = compute_number_partitions(nodes, [_is_text(node, leaves) for node in nodes], workers, settings)
        for node, count in zip(nodes, counts, strict=True):
            leaves.replace(node, partition_node(node, _is_text(node, leaves), count, settings))
    while True:
        nodes = leaves.all()
        chosen, loads = merge_nodes(nodes, workers)
        if ratio(loads) <= settings.sigma or len(nodes) >= workers * settings.theta:
            return list(zip(nodes, chosen.tolist(), strict=True))
        heaviest = max(nodes, key=Node.load)
        parts = partition_node(heaviest, _is_text(heaviest, leaves), 2, settings)
        if len(parts) < 2 or any(not len(part.queries) for part in parts):
            return list(zip(nodes, chosen.tolist(), strict=True))  # it cannot be cut any further
        leaves.replace(heaviest, parts)


def find_subspaces(root: Node, most: int, settings: HybridSettings) -> _Leaves:
    """Phase one, lines 1 to 12: cut while that finds a part where posts and subscriptions are less alike."""
    undecided, leaves = [root], _Leaves([], [])
    while undecided:
        node = undecided.pop(0)
        similarity = node.similarity()
        if similarity >= settings.delta:
            leaves.either.append(node)
            continue
        cuts = [halves for axis in (0, 1) if (halves := node.halves(axis)) is not None]
        least = [_least_similarity(halves, similarity) for halves in cuts]
        is_same = not cuts or abs(min(least) - similarity) <= settings.epsilon
        if is_same or len(undecided) + len(leaves) + 2 > most:
            leaves.by_text.append(node)
        else:
            undecided += cuts[int(np.argmin(least))]
    return leaves


def compute_number_partitions(
    nodes: Sequence[Node], is_text: Sequence[bool], workers: int, settings: HybridSettings
) -> list[int]:
    """Into how many parts to cut each node, `workers` in all, so that the sum of loads is least.

    ``L[i, j]`` is the least sum for the first i nodes in j parts, ``C[i, k]`` that of node i in k parts:
    ``L[i, j] = min over k of L[i - 1, j - k] + C[i, k]``.
    """
    most = workers - len(nodes) + 1
    cost = [
        [sum(part.load() for part in partition_node(node, text, k, settings)) for k in range(1, most + 1)]
        for node, text in zip(nodes, is_text, strict=True)
    ]
    least = np.full((len(nodes) + 1, workers + 1), np.inf)
    took = np.zeros((len(nodes) + 1, workers + 1), np.int64)
    least[0, 0] = 0
    for i in range(1, len(nodes) + 1):
        for j in range(i, workers + 1):
            sums = [least[i - 1, j - k] + cost[i - 1][k - 1] for k in range(1, min(most, j) + 1)]
            took[i, j] = int(np.argmin(sums)) + 1
            least[i, j] = min(sums)
    counts, left = [], workers
    for i in range(len(nodes), 0, -1):
        counts.append(int(took[i, left]))
        left -= counts[-1]
    return counts[::-1]


def partition_node(node: Node, is_text: bool, parts: int, settings: HybridSettings) -> list[Node]:
    """PartitionNode: by text in N_t and where words were shared out before; else the cheaper of text and space."""
    if parts == 1:
        return [node]
    by_text = node.by_text(parts, settings.text)
    if is_text or node.words is not None:
        return by_text
    by_space = node.by_space(parts)
    if len(by_space) < parts:
        return by_text
    return by_space if _sum(by_space) <= _sum(by_text) else by_text


def _least_similarity(halves: tuple[Node, Node], whole: float) -> float:
    """α of a cut; a half without posts or without subscriptions is like nothing, and finds nothing new."""
    return min((half.similarity() for half in halves if len(half.posts) and len(half.queries)), default=whole)


def _sum(nodes: Sequence[Node]) -> float:
    return sum(node.load() for node in nodes)


def _is_text(node: Node, leaves: _Leaves) -> bool:
    return any(one is node for one in leaves.by_text)
