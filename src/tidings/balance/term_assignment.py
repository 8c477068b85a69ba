"""Sharing words out over workers by the posts that say them: by frequency, by a hypergraph, by S³-TM's metric."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from tidings.balance.corpus import Corpus, inverted
from tidings.balance.salb import salb_plus
from tidings.balance.workload import Workload
from tidings.errors import InputError
from tidings.ragged import take_rows

# (workload, the posts that count, the words to share out, into how many parts) → the part of each word
TextSplit = Callable[[Workload, NDArray[np.intp], NDArray[np.uint32], int], NDArray[np.int64]]

_IMBALANCE = 0.05  # of the number of posts that say the words of a block


def by_frequency(
    workload: Workload, posts: NDArray[np.intp], words: NDArray[np.uint32], parts: int
) -> NDArray[np.int64]:
    """The most frequent words first, each to the part whose words are said least so far."""
    frequency = _corpus(workload, posts, words).frequency
    loads = np.zeros(parts, np.int64)
    chosen = np.empty(len(words), np.int64)
    for word in np.argsort(-frequency, kind="stable").tolist():
        chosen[word] = int(np.argmin(loads))
        loads[chosen[word]] += frequency[word] + 1
    return chosen


def by_metric(workload: Workload, posts: NDArray[np.intp], words: NDArray[np.uint32], parts: int) -> NDArray[np.int64]:
    """As S³-TM does, with the rule that maximises throughput (`salb+`); words nobody said are dealt out evenly."""
    corpus = _corpus(workload, posts, words)
    chosen = salb_plus(corpus, parts).astype(np.int64)
    unsaid = np.flatnonzero(corpus.frequency == 0)
    chosen[unsaid] = np.arange(len(unsaid)) % parts
    return chosen


def by_hypergraph(
    workload: Workload, posts: NDArray[np.intp], words: NDArray[np.uint32], parts: int
) -> NDArray[np.int64]:
    """Words are vertices, posts tie the words they say together; few posts are to lie in several blocks."""
    corpus = _corpus(workload, posts, words)
    sizes = np.diff(corpus.starts)
    tied = np.flatnonzero(sizes > 1)
    if parts == 1 or len(words) <= parts or not len(tied):
        return np.arange(len(words), dtype=np.int64) % parts
    bounds = corpus.starts.astype(np.int64)
    ties: dict[tuple[int, ...], int] = {}
    for post in tied.tolist():
        tie = tuple(sorted(corpus.words[bounds[post] : bounds[post + 1]].tolist()))
        ties[tie] = ties.get(tie, 0) + 1
    return _blocks(len(words), ties, corpus.frequency + 1, parts)


def _blocks(
    words: int, ties: Mapping[tuple[int, ...], int], weights: NDArray[np.int64], parts: int
) -> NDArray[np.int64]:
    try:
        import mtkahypar
    except ImportError as error:
        raise InputError("Hypergraphs need mtkahypar: install it with `pip install tidings[hypergraph]`.") from error
    partitioner = mtkahypar.initialize(1)
    context = partitioner.context_from_preset(mtkahypar.PresetType.DETERMINISTIC)
    context.set_partitioning_parameters(parts, _IMBALANCE, mtkahypar.Objective.KM1)
    context.logging = False
    mtkahypar.set_seed(0)
    edges, counts = [list(tie) for tie in ties], list(ties.values())
    graph = partitioner.create_hypergraph(context, words, len(edges), edges, weights.tolist(), counts)
    found = graph.partition(context)
    return np.array([found.block_id(word) for word in range(words)], np.int64)


def _corpus(workload: Workload, posts: NDArray[np.intp], words: NDArray[np.uint32]) -> Corpus:
    """These posts as sets of these words, numbered by their place."""
    place = np.full(len(workload.terms) + 1, -1, np.int64)
    place[words] = np.arange(len(words))
    bounds = workload.received.bounds[posts].astype(np.int64)
    said, starts = take_rows(workload.received.terms, bounds[:, 0], bounds[:, 1] - bounds[:, 0])
    row = np.repeat(np.arange(len(posts)), np.diff(starts).astype(np.int64))
    known = place[said] >= 0
    pairs = np.unique(row[known] * max(1, len(words)) + place[said[known]])
    counts = np.bincount(pairs // max(1, len(words)), minlength=len(posts))
    flat = (pairs % max(1, len(words))).astype(np.uint32)
    return inverted(flat, np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64), len(words))
