"""Word network partitioning (S³-TM 3.2): words that occur together are neighbours, METIS cuts few of these ties.

`gc` counts every tie alike, `gfc` by how often the words occur together; `gfcl` balances the frequency of the words
besides, `gnfcl` a frequency corrected for the company they keep.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pymetis
from numba import types, uint32, uint64
from numpy.typing import NDArray

from tidings.balance.corpus import Corpus
from tidings.jit import kernel, read, write

_ONE = np.uint64(1)
_SCALE = 1000  # METIS weighs in whole numbers; a corrected frequency is a fraction


@dataclass(frozen=True, slots=True)
class Network:
    """Who occurs with whom, and in how many posts: ``neighbours[starts[w]:starts[w + 1]]`` and `together` beside."""

    starts: NDArray[np.uint64]
    neighbours: NDArray[np.uint32]
    together: NDArray[np.uint32]

    @classmethod
    def of(cls, corpus: Corpus) -> Network:
        count = len(corpus.terms)
        arrays = (corpus.words, corpus.starts, corpus.posts, corpus.said)
        starts = np.zeros(count + 1, np.uint64)
        met, seen = np.empty(count, np.uint32), np.zeros(count, np.uint32)
        none = np.empty(0, np.uint32)
        _meet(*arrays, met, seen, starts, none, none)
        neighbours, together = np.empty(int(starts[-1]), np.uint32), np.empty(int(starts[-1]), np.uint32)
        _meet(*arrays, met, seen, starts, neighbours, together)
        return cls(starts, neighbours, together)

    def company(self) -> NDArray[np.float64]:
        """For each word, in how many posts each other word is with it, summed up."""
        sums = np.concatenate([[0.0], np.cumsum(self.together, dtype=np.float64)])
        total: NDArray[np.float64] = np.diff(sums[self.starts.astype(np.int64)])
        return total


def gc(corpus: Corpus, matchers: int) -> NDArray[np.uint16]:
    network = Network.of(corpus)
    return _cut(network, matchers, None, None)


def gfc(corpus: Corpus, matchers: int) -> NDArray[np.uint16]:
    network = Network.of(corpus)
    return _cut(network, matchers, network.together, None)


def gfcl(corpus: Corpus, matchers: int) -> NDArray[np.uint16]:
    network = Network.of(corpus)
    return _cut(network, matchers, network.together, corpus.frequency)


def gnfcl(corpus: Corpus, matchers: int) -> NDArray[np.uint16]:
    network = Network.of(corpus)
    return _cut(network, matchers, network.together, corrected_load(corpus.frequency, network.company()))


def corrected_load(frequency: NDArray[np.int64], company: NDArray[np.float64]) -> NDArray[np.int64]:
    """f / (1 + f_n / f): k words that always occur together weigh as much as one of them."""
    load = frequency / (1 + company / np.maximum(1, frequency))
    return np.maximum(1, np.rint(load * _SCALE)).astype(np.int64)


def _cut(
    network: Network,
    matchers: int,
    ties: NDArray[np.uint32] | None,
    weights: NDArray[np.int64] | None,
) -> NDArray[np.uint16]:
    """The part METIS puts each word into. It starts from a seed of its own that never changes."""
    count = len(network.starts) - 1
    if matchers == 1 or count <= matchers:
        return np.arange(count, dtype=np.uint16) % np.uint16(matchers)
    with _silence():
        _, parts = pymetis.part_graph(
            matchers,
            pymetis.CSRAdjacency(network.starts.astype(np.int64), network.neighbours.astype(np.int64)),
            eweights=None if ties is None else ties.astype(np.int64),
            vweights=weights,
            recursive=False,
        )
    return np.asarray(parts, np.uint16)


@contextmanager
def _silence() -> Iterator[None]:
    """METIS complains of parts that stay empty on the standard output of the process, where results belong."""
    sys.stdout.flush()
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


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
def _meet(words, starts, posts, said, met, seen, ends, neighbours, together):  # type: ignore[no-untyped-def]
    """For every word, those it occurs with. First called without room, to learn from `ends` how much is needed.

    `met` and `seen` are scratch space for the words met and how often; `seen` is all zero before and after.
    """
    used = uint64(0)
    for word in range(uint64(said.size - 1)):
        count = uint64(0)
        for at in range(said[word], said[word + _ONE]):
            post = uint64(posts[at])
            for place in range(starts[post], starts[post + _ONE]):
                other = uint64(words[place])
                if other == word:
                    continue
                if seen[other] == 0:
                    met[count] = uint32(other)
                    count += _ONE
                seen[other] += uint32(1)
        for number in range(count):
            other = uint64(met[number])
            if neighbours.size > 0:
                neighbours[used + number] = uint32(other)
                together[used + number] = seen[other]
            seen[other] = uint32(0)
        used += count
        ends[word + _ONE] = used
