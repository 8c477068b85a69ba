"""MergeNodesIntoPartitions (PS²Stream, algorithm 1, line 18): leaf nodes given to workers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tidings.balance.kdt_tree import Node
from tidings.plan.load_model import LoadModel


class Parts:
    """What each worker would hold and be sent, as sets of conjunctions and posts: what is shared counts once."""

    def __init__(self, workers: int, posts: int, queries: int, model: LoadModel) -> None:
        self._posts, self._queries = np.zeros((workers, posts), bool), np.zeros((workers, queries), bool)
        self._counts = np.zeros((workers, 2), np.int64)
        self._model = model
        self.loads = np.zeros(workers)

    def loads_with(self, sent: NDArray[np.intp], queries: NDArray[np.intp]) -> NDArray[np.float64]:
        """The load each worker would have with these posts and conjunctions on top."""
        posts = self._counts[:, 0] + len(sent) - self._posts[:, sent].sum(axis=1)
        held = self._counts[:, 1] + len(queries) - self._queries[:, queries].sum(axis=1)
        return np.array([self._model.load(o, q) for o, q in zip(posts.tolist(), held.tolist(), strict=True)])

    def add(self, worker: int, sent: NDArray[np.intp], queries: NDArray[np.intp]) -> None:
        self._posts[worker, sent] = True
        self._queries[worker, queries] = True
        self._counts[worker] = self._posts[worker].sum(), self._queries[worker].sum()
        self.loads[worker] = self._model.load(*self._counts[worker].tolist())


def merge_nodes(nodes: Sequence[Node], workers: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(the worker of each node, the load of each worker).

    In descending order of load, a node goes to the worker whose load it raises least, unless that raises the ratio of
    the largest load to the smallest; then to the worker with the smallest load.
    """
    ground = nodes[0].ground
    parts = Parts(workers, len(ground.workload.positions), len(ground.workload.anchors), ground.model)
    sent = [node.sent() for node in nodes]
    own = [ground.model.load(len(posts), len(node.queries)) for posts, node in zip(sent, nodes, strict=True)]
    chosen = np.zeros(len(nodes), np.int64)
    little = min((load for load in own if load > 0), default=1.0)  # so that it is a ratio while a worker has nothing
    for number in np.argsort(-np.array(own), kind="stable").tolist():
        after = parts.loads_with(sent[number], nodes[number].queries)
        worker = int(np.argmin(after - parts.loads))
        changed = parts.loads.copy()
        changed[worker] = after[worker]
        if ratio(changed + little) > ratio(parts.loads + little):
            worker = int(np.argmin(parts.loads))
        parts.add(worker, sent[number], nodes[number].queries)
        chosen[number] = worker
    return chosen, parts.loads


def ratio(loads: NDArray[np.float64]) -> float:
    """The load balancing factor: the largest load against the smallest."""
    smallest = float(loads.min())
    return float(loads.max()) / smallest if smallest > 0 else float("inf")
