"""Divide terms among matchers by their work and their posts: by work alone, by a hypergraph, or as S³-TM does."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from tidings.balance.corpus import Corpus, build_unnamed_corpus
from tidings.balance.salb import salb_plus
from tidings.balance.workload import Workload
from tidings.extras import import_extra
from tidings.ragged import take_rows

# (workload, rows of the posts that count, terms to divide, number of parts, work of each term) → the part of each term.
# The work is in units of the time for a post, which comes in addition.
TermSplitter = Callable[
    [Workload, NDArray[np.intp], NDArray[np.uint32], int, NDArray[np.float64] | None], NDArray[np.int64]
]

_IMBALANCE = 0.05  # allowed for the number of posts per block


def split_by_frequency(
    workload: Workload,
    posts: NDArray[np.intp],
    terms: NDArray[np.uint32],
    parts: int,
    work: NDArray[np.float64] | None = None,
) -> NDArray[np.int64]:
    """Assign the terms with the most posts and work first, each to the part with the least in total."""
    loads = _add_work(_build_corpus(workload, posts, terms).frequency + 1, work)
    totals = np.zeros(parts, np.int64)
    chosen = np.empty(len(terms), np.int64)
    for term in np.argsort(-loads, kind="stable").tolist():
        chosen[term] = int(np.argmin(totals))
        totals[chosen[term]] += loads[term]
    return chosen


def split_by_metric(
    workload: Workload,
    posts: NDArray[np.intp],
    terms: NDArray[np.uint32],
    parts: int,
    work: NDArray[np.float64] | None = None,
) -> NDArray[np.int64]:
    """Assign terms by `salb+` of S³-TM; terms without posts are distributed in turn."""
    corpus = _build_corpus(workload, posts, terms)
    chosen = salb_plus(corpus, parts, _add_work(np.zeros(len(terms), np.int64), work)).astype(np.int64)
    unused = np.flatnonzero(corpus.frequency == 0)
    chosen[unused] = np.arange(len(unused)) % parts
    return chosen


def split_by_hypergraph(
    workload: Workload,
    posts: NDArray[np.intp],
    terms: NDArray[np.uint32],
    parts: int,
    work: NDArray[np.float64] | None = None,
) -> NDArray[np.int64]:
    """Partition the hypergraph whose vertices are terms and whose edges are posts, so that few edges are cut."""
    corpus = _build_corpus(workload, posts, terms)
    sizes = np.diff(corpus.post_starts)
    connecting = np.flatnonzero(sizes > 1)
    if parts == 1 or len(terms) <= parts or not len(connecting):
        return np.arange(len(terms), dtype=np.int64) % parts
    bounds = corpus.post_starts.astype(np.int64)
    edges: dict[tuple[int, ...], int] = {}
    for post in connecting.tolist():
        edge = tuple(sorted(corpus.post_terms[bounds[post] : bounds[post + 1]].tolist()))
        edges[edge] = edges.get(edge, 0) + 1
    return _partition_hypergraph(len(terms), edges, _add_work(corpus.frequency + 1, work), parts)


def _partition_hypergraph(
    terms: int, edge_weights: Mapping[tuple[int, ...], int], term_weights: NDArray[np.int64], parts: int
) -> NDArray[np.int64]:
    mtkahypar = import_extra("mtkahypar")
    partitioner = mtkahypar.initialize(1)
    context = partitioner.context_from_preset(mtkahypar.PresetType.DETERMINISTIC)
    context.set_partitioning_parameters(parts, _IMBALANCE, mtkahypar.Objective.KM1)
    context.logging = False
    mtkahypar.set_seed(0)
    edges, weights = [list(edge) for edge in edge_weights], list(edge_weights.values())
    graph = partitioner.create_hypergraph(context, terms, len(edges), edges, term_weights.tolist(), weights)
    partitioned = graph.partition(context)
    return np.array([partitioned.block_id(term) for term in range(terms)], np.int64)


def _add_work(loads: NDArray[np.int64], work: NDArray[np.float64] | None) -> NDArray[np.int64]:
    return loads if work is None else loads + np.rint(work).astype(np.int64)


def _build_corpus(workload: Workload, posts: NDArray[np.intp], terms: NDArray[np.uint32]) -> Corpus:
    """Return these posts as sets of these terms, which are numbered by their position in `terms`."""
    number_of = np.full(len(workload.terms) + 1, -1, np.int64)
    number_of[terms] = np.arange(len(terms))
    bounds = workload.analyzed.bounds[posts].astype(np.int64)
    post_terms, starts = take_rows(workload.analyzed.terms, bounds[:, 0], bounds[:, 1] - bounds[:, 0])
    row = np.repeat(np.arange(len(posts)), np.diff(starts).astype(np.int64))
    known = number_of[post_terms] >= 0
    pairs = np.unique(row[known] * max(1, len(terms)) + number_of[post_terms[known]])
    counts = np.bincount(pairs // max(1, len(terms)), minlength=len(posts))
    flat = (pairs % max(1, len(terms))).astype(np.uint32)
    return build_unnamed_corpus(flat, np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64), len(terms))
