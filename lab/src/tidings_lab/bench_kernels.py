"""What one core does without Spark: matching, receiving, compiling, the size of an index, and the same loop in C."""

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
from tidings.matching.segment_matcher import FlatMatcher, no_positions
from tidings.text.analyzer import Received
from tidings_lab import native
from tidings_lab.clock import take_turns, timed
from tidings_lab.datasets import Posts, Subscriptions, benchmark_subscriptions
from tidings_lab.errors import ContendersDisagree
from tidings_lab.sample_queries import NumberedPosts, by_frequency, vocabulary_bytes

BATCH = 10_000  # posts, as Spark hands them over
WORDS = 3  # of a subscription, where bytes are counted


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything: full for the record, small to see that it runs."""

    posts: int = 200_000
    from_numbers: Sequence[int] = (1_000_000, 10_000_000)
    from_strings: int = 1_000_000
    bytes_at: Sequence[int] = (100_000, 1_000_000)


QUICK = Sizes(posts=20_000, from_numbers=(100_000,), from_strings=20_000, bytes_at=(10_000,))


def measure_kernels(
    posts: Posts, subscriptions: Subscriptions, repetitions: int, sizes: Sizes, say: Callable[[str], None] = print
) -> dict[str, Any]:
    """Every kernel figure, with all repetitions."""
    results: dict[str, Any] = {"batch": BATCH, "subscriptions": subscriptions.described()}
    texts = posts.texts.slice(0, sizes.posts)
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
        index, _ = create_index(Path(folder) / "index", subscriptions.table)
        results |= measure_matching(index, texts, repetitions, Path(folder), say)
    numbered = NumberedPosts.of(posts.texts)
    results["bytes"] = [_say(say, three_word_bytes(numbered, n, subscriptions.seed)) for n in sizes.bytes_at]
    results["from_numbers"] = [
        _say(say, compile_numbers(numbered, n, subscriptions.seed, repetitions)) for n in sizes.from_numbers
    ]
    results["from_strings"] = [_say(say, compile_strings(posts, sizes.from_strings, subscriptions.seed))]
    return results


def _say(say: Callable[[str], None], result: dict[str, Any]) -> dict[str, Any]:
    say("  " + ", ".join(f"{name}: {value:,.4g}" for name, value in result.items() if not isinstance(value, list)))
    return result


def measure_matching(
    index: Index, texts: pa.Array, repetitions: int, folder: Path, say: Callable[[str], None]
) -> dict[str, Any]:
    """posts/s of the matcher (pre-tokenised), of the receiver (text), and of `find` in numba and in C."""
    receiver = index.receiver()
    pieces = [texts.slice(at, BATCH) for at in range(0, len(texts), BATCH)]
    batches = [receiver.receive(piece) for piece in pieces]
    segment = index.shard(0)[0].segment
    matcher = FlatMatcher(segment, index.manifest.terms)
    none = no_positions(BATCH)
    matches = sum(len(matcher.match(batch, none[: len(batch)])) for batch in batches)
    actions: dict[str, Callable[[], object]] = {
        "matching": lambda: [matcher.match(batch, none[: len(batch)]) for batch in batches],
        "receiving": lambda: [receiver.receive(piece) for piece in pieces],
    }
    numba_loop = FindLoop(postings_kernel.find, segment, index.manifest.terms)
    actions["find_numba"] = lambda: numba_loop.run(batches)
    skipped = {} if native.compiler() else {"find_c": "there is no C compiler"}
    if not skipped:
        c_loop = FindLoop(native.compile_find(folder), segment, index.manifest.terms)
        if c_loop.run(batches) != numba_loop.run(batches):
            raise ContendersDisagree("The loops in numba and in C do not find the same number of pairs.")
        actions["find_c"] = lambda: c_loop.run(batches)
    results: dict[str, Any] = {"skipped": skipped, "find_pairs": numba_loop.run(batches)}
    for name, times in take_turns(actions, repetitions).items():
        rate, cpu_rate = len(texts) / times.best, len(texts) / times.best_cpu
        results[name] = {"posts": len(texts), "posts_per_second": rate, "posts_per_cpu_second": cpu_rate}
        results[name] |= times.described()
        say(f"  {name}: {rate:,.0f} posts/s ({cpu_rate:,.0f} a processor second)")
    results["matching"] |= {"matches": matches, "matches_per_post": matches / len(texts)}
    return results


class FindLoop:
    """`find`, whoever compiled it, with buffers of its own."""

    def __init__(self, find: Callable[..., bool], segment: Segment, terms: int) -> None:
        self._find = find
        self._arrays = (segment.list_start(terms), np.ascontiguousarray(segment.second), segment.rest)
        self._bitmap = np.zeros(terms // 8 + 1, np.uint8)
        self.pairs = np.empty((1 << 14, 2), np.uint32)

    def run(self, batches: Sequence[Received]) -> int:
        """The number of pairs in all batches."""
        return sum(len(self.batch(batch)) for batch in batches)

    def batch(self, batch: Received) -> NDArray[np.uint32]:
        state = np.zeros(postings_kernel.STATE_SIZE, np.uint64)
        arguments = (
            batch.terms,
            batch.bounds,
            *self._arrays,
            self._bitmap,
            postings_kernel.room_for_words(batch.bounds),
        )
        while not self._find(*arguments, self.pairs, state):
            grown = np.empty((2 * len(self.pairs), 2), np.uint32)
            grown[: len(self.pairs)] = self.pairs
            self.pairs = grown
        return self.pairs[: int(state[postings_kernel.USED])]


def three_word_bytes(numbered: NumberedPosts, count: int, seed: int) -> dict[str, Any]:
    """What a subscription of three words takes: its share of the segment and of the dictionary."""
    conjunctions = numbered.draw(count, seed, WORDS)
    numbers, words = by_frequency(conjunctions, len(numbered.terms))
    segment = build_segment(conjunctions.renumbered(numbers), pa.array(np.arange(count)))
    dictionary = vocabulary_bytes(numbered.terms, numbers)
    return {
        "subscriptions": count,
        "words": words,
        "segment_bytes": segment.size_bytes,
        "dictionary_bytes": dictionary,
        "bytes_per_subscription": (segment.size_bytes + dictionary) / count,
    }


def compile_numbers(numbered: NumberedPosts, count: int, seed: int, repetitions: int) -> dict[str, Any]:
    """Word numbers to a segment in memory; numbering the words by frequency counts."""
    conjunctions = numbered.draw(count, seed)
    ids = pa.array(np.arange(count))

    def action() -> None:
        numbers, _ = by_frequency(conjunctions, len(numbered.terms))
        build_segment(conjunctions.renumbered(numbers), ids)

    times = timed(action, repetitions if count <= 1_000_000 else min(2, repetitions))
    return {"subscriptions": count, "best_seconds": times.best, "best_cpu_seconds": times.best_cpu, **times.described()}


def compile_strings(posts: Posts, count: int, seed: int) -> dict[str, Any]:
    """Query strings to an index on disk."""
    table = benchmark_subscriptions(count, seed, posts).table

    def action() -> None:
        with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
            create_index(Path(folder) / "index", table)

    times = timed(action, 1)
    return {"subscriptions": count, "best_seconds": times.best, "best_cpu_seconds": times.best_cpu, **times.described()}
