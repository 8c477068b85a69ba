"""Word graph partitioning (S³-TM 3.2): METIS cuts the co-occurrence graph of the terms along few edges.

`gc` weighs all edges equally, `gfc` by co-occurrence. `gfcl` also balances the frequency of the terms, `gnfcl` a
frequency that is corrected for co-occurring terms.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numba import types, uint32, uint64
from numpy.typing import NDArray

from tidings.balance.corpus import Corpus
from tidings.extras import import_extra
from tidings.jit import kernel, read, write

_ONE = np.uint64(1)
_WEIGHT_SCALE = 1000  # METIS takes integer weights; a corrected frequency is a fraction


@dataclass(frozen=True, slots=True)
class CooccurrenceGraph:
    """Term t co-occurs with ``neighbours[starts[t]:starts[t + 1]]``, in `weights` posts each."""

    starts: NDArray[np.uint64]
    neighbours: NDArray[np.uint32]
    weights: NDArray[np.uint32]

    @classmethod
    def from_corpus(cls, corpus: Corpus) -> CooccurrenceGraph:
        count = len(corpus.terms)
        arrays = (corpus.post_terms, corpus.post_starts, corpus.term_posts, corpus.term_starts)
        starts = np.zeros(count + 1, np.uint64)
        found, seen = np.empty(count, np.uint32), np.zeros(count, np.uint32)
        empty = np.empty(0, np.uint32)
        _collect_neighbours(*arrays, found, seen, starts, empty, empty)
        neighbours, weights = np.empty(int(starts[-1]), np.uint32), np.empty(int(starts[-1]), np.uint32)
        _collect_neighbours(*arrays, found, seen, starts, neighbours, weights)
        return cls(starts, neighbours, weights)

    def sum_neighbour_weights(self) -> NDArray[np.float64]:
        """Return for each term the sum of its co-occurrences with all other terms."""
        sums = np.concatenate([[0.0], np.cumsum(self.weights, dtype=np.float64)])
        total: NDArray[np.float64] = np.diff(sums[self.starts.astype(np.int64)])
        return total


def gc(corpus: Corpus, matchers: int) -> NDArray[np.uint16]:
    return _cut(CooccurrenceGraph.from_corpus(corpus), matchers, None, None)


def gfc(corpus: Corpus, matchers: int) -> NDArray[np.uint16]:
    graph = CooccurrenceGraph.from_corpus(corpus)
    return _cut(graph, matchers, graph.weights, None)


def gfcl(corpus: Corpus, matchers: int) -> NDArray[np.uint16]:
    graph = CooccurrenceGraph.from_corpus(corpus)
    return _cut(graph, matchers, graph.weights, corpus.frequency)


def gnfcl(corpus: Corpus, matchers: int) -> NDArray[np.uint16]:
    graph = CooccurrenceGraph.from_corpus(corpus)
    return _cut(graph, matchers, graph.weights, correct_frequency(corpus.frequency, graph.sum_neighbour_weights()))


def correct_frequency(frequency: NDArray[np.int64], neighbour_weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return f / (1 + f_n / f), scaled: k terms that always occur together weigh as much as one of them."""
    load = frequency / (1 + neighbour_weights / np.maximum(1, frequency))
    return np.maximum(1, np.rint(load * _WEIGHT_SCALE)).astype(np.int64)


def _cut(
    graph: CooccurrenceGraph,
    matchers: int,
    edge_weights: NDArray[np.uint32] | None,
    term_weights: NDArray[np.int64] | None,
) -> NDArray[np.uint16]:
    """Return the part of each term. METIS uses its own constant seed."""
    count = len(graph.starts) - 1
    if matchers == 1 or count <= matchers:
        return np.arange(count, dtype=np.uint16) % np.uint16(matchers)
    pymetis = import_extra("pymetis")
    with _stdout_to_devnull():
        _, parts = pymetis.part_graph(
            matchers,
            pymetis.CSRAdjacency(graph.starts.astype(np.int64), graph.neighbours.astype(np.int64)),
            eweights=None if edge_weights is None else edge_weights.astype(np.int64),
            vweights=term_weights,
            recursive=False,
        )
    return np.asarray(parts, np.uint16)


@contextmanager
def _stdout_to_devnull() -> Iterator[None]:
    """Discard standard output: METIS prints warnings about empty parts there, among our results."""
    sys.stdout.flush()
    stdout = os.dup(1)
    devnull = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(devnull, 1)
        yield
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)
        os.close(devnull)


@kernel(
    types.void,
    read(uint32),
    read(uint64),
    read(uint32),
    read(uint64),
    write(uint32),
    write(uint32),
    write(uint64),
    write(uint32),
    write(uint32),
)
def _collect_neighbours(post_terms, starts, posts, term_starts, found, seen, ends, neighbours, weights):  # type: ignore[no-untyped-def]
    """Write the terms that each term co-occurs with. With empty outputs, only `ends` is written (to size them).

    `found` and `seen` are scratch space for the neighbours and their counts; `seen` is all zero before and after.
    """
    used = uint64(0)
    for term in range(uint64(term_starts.size - 1)):
        count = uint64(0)
        for at in range(term_starts[term], term_starts[term + _ONE]):
            post = uint64(posts[at])
            for place in range(starts[post], starts[post + _ONE]):
                other = uint64(post_terms[place])
                if other == term:
                    continue
                if seen[other] == 0:
                    found[count] = uint32(other)
                    count += _ONE
                seen[other] += uint32(1)
        for number in range(count):
            other = uint64(found[number])
            if neighbours.size > 0:
                neighbours[used + number] = uint32(other)
                weights[used + number] = seen[other]
            seen[other] = uint32(0)
        used += count
        ends[term + _ONE] = used
