"""One core without Spark: matching, text analysis, compilation, size of an index, and the inner loop in C."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.index.builder import create_index
from tidings.index.reader import Index
from tidings.index.segment import Segment, build_segment
from tidings.matching import postings_kernel
from tidings.matching.segment_matcher import SegmentMatcher, missing_positions
from tidings.text.analyzer import AnalyzedBatch
from tidings_lab import native
from tidings_lab.clock import time_in_turns, time_repetitions
from tidings_lab.datasets import Posts, SubscriptionSet, benchmark_subscriptions
from tidings_lab.errors import ContendersDisagree
from tidings_lab.progress import Report, print_line
from tidings_lab.sample_queries import NumberedPosts, number_by_frequency, renumber_by_frequency, vocabulary_bytes
from tidings_lab.thresholds import COUNTED_TERMS

BATCH = 10_000  # posts per batch, as in Spark


@dataclass(frozen=True, slots=True)
class KernelSizes:
    """The amount of data per measurement."""

    posts: int = 200_000
    from_numbers: Sequence[int] = (1_000_000, 10_000_000)
    from_strings: int = 1_000_000
    bytes_at: Sequence[int] = (100_000, 1_000_000)


QUICK = KernelSizes(posts=20_000, from_numbers=(100_000,), from_strings=20_000, bytes_at=(10_000,))


def measure_kernels(
    posts: Posts, subscriptions: SubscriptionSet, repetitions: int, sizes: KernelSizes, report: Report = print_line
) -> dict[str, Any]:
    """Measure all kernels, with every repetition."""
    results: dict[str, Any] = {"batch": BATCH, "subscriptions": subscriptions.to_dict()}
    texts = posts.texts.slice(0, sizes.posts)
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
        index, _ = create_index(Path(folder) / "index", subscriptions.table)
        results |= measure_matching(index, texts, repetitions, Path(folder), report)
    numbered = NumberedPosts.of(posts.texts)
    results["bytes"] = [_report_result(report, measure_bytes(numbered, n, subscriptions.seed)) for n in sizes.bytes_at]
    results["from_numbers"] = [
        _report_result(report, compile_numbers(numbered, n, subscriptions.seed, repetitions))
        for n in sizes.from_numbers
    ]
    results["from_strings"] = [_report_result(report, compile_strings(posts, sizes.from_strings, subscriptions.seed))]
    return results


def _report_result(report: Report, result: dict[str, Any]) -> dict[str, Any]:
    report("  " + ", ".join(f"{name}: {value:,.4g}" for name, value in result.items() if not isinstance(value, list)))
    return result


def measure_matching(index: Index, texts: pa.Array, repetitions: int, folder: Path, report: Report) -> dict[str, Any]:
    """Measure posts/s of the matcher, of text analysis, and of the inner loop in numba and in C."""
    receiver = index.analyzer()
    pieces = [texts.slice(at, BATCH) for at in range(0, len(texts), BATCH)]
    batches = [receiver.analyze(piece) for piece in pieces]
    segment = index.open_shard(0)[0].segment
    matcher = SegmentMatcher(segment, index.manifest.terms)
    none = missing_positions(BATCH)
    matches = sum(len(matcher.match(batch, none[: len(batch)])) for batch in batches)
    actions: dict[str, Callable[[], object]] = {
        "matching": lambda: [matcher.match(batch, none[: len(batch)]) for batch in batches],
        "receiving": lambda: [receiver.analyze(piece) for piece in pieces],
    }
    numba_loop = FindLoop(postings_kernel.find_candidates, segment, index.manifest.terms)
    actions["find_numba"] = lambda: numba_loop.run(batches)
    skipped = {} if native.find_compiler() else {"find_c": "no C compiler found"}
    if not skipped:
        c_loop = FindLoop(native.compile_find(folder), segment, index.manifest.terms)
        if c_loop.run(batches) != numba_loop.run(batches):
            raise ContendersDisagree("The loops in numba and in C found different numbers of pairs.")
        actions["find_c"] = lambda: c_loop.run(batches)
    results: dict[str, Any] = {"skipped": skipped, "find_pairs": numba_loop.run(batches)}
    for name, times in time_in_turns(actions, repetitions).items():
        rate, cpu_rate = len(texts) / times.best, len(texts) / times.best_cpu
        results[name] = {"posts": len(texts), "posts_per_second": rate, "posts_per_cpu_second": cpu_rate}
        results[name] |= times.to_dict()
        report(f"  {name}: {rate:,.0f} posts/s ({cpu_rate:,.0f} per CPU second)")
    results["matching"] |= {"matches": matches, "matches_per_post": matches / len(texts)}
    return results


class FindLoop:
    """The inner loop, compiled by numba or C, with its own buffers."""

    def __init__(self, find: Callable[..., bool], segment: Segment, terms: int) -> None:
        self._find = find
        self._arrays = (
            segment.posting_start(terms),
            np.ascontiguousarray(segment.second_term),
            segment.third_fourth_term,
        )
        self._bitmap = np.zeros(terms // 8 + 1, np.uint8)
        self.pairs = np.empty((1 << 14, 2), np.uint32)

    def run(self, batches: Sequence[AnalyzedBatch]) -> int:
        """Return the number of pairs in all batches."""
        return sum(len(self.batch(batch)) for batch in batches)

    def batch(self, batch: AnalyzedBatch) -> NDArray[np.uint32]:
        state = np.zeros(postings_kernel.STATE_SIZE, np.uint64)
        arguments = (
            batch.terms,
            batch.bounds,
            *self._arrays,
            self._bitmap,
            postings_kernel.term_buffer(batch.bounds),
        )
        while not self._find(*arguments, self.pairs, state):
            grown = np.empty((2 * len(self.pairs), 2), np.uint32)
            grown[: len(self.pairs)] = self.pairs
            self.pairs = grown
        return self.pairs[: int(state[postings_kernel.USED])]


def measure_bytes(numbered: NumberedPosts, count: int, seed: int) -> dict[str, Any]:
    """Return the bytes per subscription of three terms, in the segment and in the vocabulary."""
    conjunctions = numbered.draw(count, seed, COUNTED_TERMS)
    numbers, words = number_by_frequency(conjunctions, len(numbered.terms))
    segment = build_segment(renumber_by_frequency(conjunctions, numbers), pa.array(np.arange(count)))
    dictionary = vocabulary_bytes(numbered.terms, numbers)
    return {
        "subscriptions": count,
        "words": words,
        "segment_bytes": segment.size_bytes,
        "dictionary_bytes": dictionary,
        "bytes_per_subscription": (segment.size_bytes + dictionary) / count,
    }


def compile_numbers(numbered: NumberedPosts, count: int, seed: int, repetitions: int) -> dict[str, Any]:
    """Time compilation from term ids to a segment in memory, including numbering terms by frequency."""
    conjunctions = numbered.draw(count, seed)
    ids = pa.array(np.arange(count))

    def action() -> None:
        numbers, _ = number_by_frequency(conjunctions, len(numbered.terms))
        build_segment(renumber_by_frequency(conjunctions, numbers), ids)

    times = time_repetitions(action, repetitions if count <= 1_000_000 else min(2, repetitions))
    return {"subscriptions": count, "best_seconds": times.best, "best_cpu_seconds": times.best_cpu, **times.to_dict()}


def compile_strings(posts: Posts, count: int, seed: int) -> dict[str, Any]:
    """Time compilation from query strings to an index on disk."""
    table = benchmark_subscriptions(count, seed, posts).table

    def action() -> None:
        with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
            create_index(Path(folder) / "index", table)

    times = time_repetitions(action, 1)
    return {"subscriptions": count, "best_seconds": times.best, "best_cpu_seconds": times.best_cpu, **times.to_dict()}
