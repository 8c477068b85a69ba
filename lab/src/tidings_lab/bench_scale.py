"""From a thousand to ten million subscriptions: posts/s, bytes, build time, peak memory; one process per size.

`python -m tidings_lab.bench_scale FOLDER` is such a process: it reads the prepared arrays and prints its result.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.index.segment import build_segment
from tidings.matching.segment_matcher import SegmentMatcher, missing_positions
from tidings.text.analyzer import AnalyzedBatch
from tidings_lab.progress import Report, print_line
from tidings_lab.sample_queries import NumberedPosts, make_conjunctions, number_by_frequency, vocabulary_bytes

SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
POSTS = 100_000  # to match: the first ones that subscriptions are drawn from
_MAX_SECONDS = 4.0  # per repetition
_REPETITIONS = 3


def measure_growth(
    numbered: NumberedPosts, seed: int, sizes: Sequence[int], report: Report = print_line
) -> list[dict[str, Any]]:
    """Return one result per size."""
    results = []
    for count in sizes:
        with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
            dictionary = _prepare(Path(folder), numbered, count, seed)
            command = [sys.executable, "-m", "tidings_lab.bench_scale", folder]
            result: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        size_bytes = result["segment_bytes"] + dictionary
        result |= {"dictionary_bytes": dictionary, "bytes_per_subscription": size_bytes / count}
        speed, each = result["posts_per_second"], result["bytes_per_subscription"]
        built, peak = result["build_seconds"], result["peak_bytes"] / 1e6
        report(f"  {count:,}: {speed:,.0f} posts/s, {each:.1f} bytes each, built in {built:.2f} s, peak {peak:,.0f} MB")
        results.append(result)
    return results


def _prepare(folder: Path, numbered: NumberedPosts, count: int, seed: int) -> int:
    """Write subscriptions and posts for the child process. Returns the bytes of the vocabulary."""
    conjunctions = numbered.draw(count, seed)
    numbers, words = number_by_frequency(conjunctions, len(numbered.terms))
    received = numbered.first(POSTS).to_batch(numbers)
    arrays: dict[str, NDArray[Any]] = {
        "subscribed": numbers[conjunctions.terms],
        "starts": conjunctions.starts,
        "terms": received.terms,
        "bounds": received.bounds,
        "words": np.array([words]),
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return vocabulary_bytes(numbered.terms, numbers)


def measure_one(folder: Path) -> dict[str, Any]:
    """Build the index and match the posts of a prepared folder in this process."""
    subscribed, starts, terms, bounds, words = (
        np.load(folder / f"{name}.npy") for name in ("subscribed", "starts", "terms", "bounds", "words")
    )
    conjunctions = make_conjunctions(subscribed, starts)
    count = len(conjunctions)
    build_segment(conjunctions.select(np.arange(1)), pa.array([0]))  # exclude the cost of the first call
    before = peak_bytes()
    start = time.perf_counter()
    segment = build_segment(conjunctions.order_terms(conjunctions.terms), pa.array(np.arange(count)))
    build_seconds = time.perf_counter() - start
    after_build = peak_bytes()
    matcher = SegmentMatcher(segment, int(words[0]))
    batch = 10_000 if count <= 100_000 else 1_000  # limit the memory of the matches of one batch
    rates, matches = _measure_rates(matcher, terms, bounds, batch)
    return {
        "subscriptions": count,
        "build_seconds": build_seconds,
        "segment_bytes": segment.size_bytes,
        "entries": len(segment.second_term),
        "posts_per_second": max(rates),
        "repetitions": rates,
        "matches_per_post": matches,
        "batch": batch,
        "peak_before_build_bytes": before,
        "peak_build_bytes": after_build,
        "peak_bytes": peak_bytes(),
    }


def _measure_rates(matcher: SegmentMatcher, terms: Any, bounds: Any, batch: int) -> tuple[list[float], float]:
    """Return posts/s of every repetition, and matches per post."""
    pieces = [AnalyzedBatch(terms, bounds[at : at + batch]) for at in range(0, len(bounds), batch)]
    none = missing_positions(batch)
    matcher.match(pieces[0], none[: len(pieces[0])])
    rates, posts, matches = [], 0, 0
    for _ in range(_REPETITIONS):
        start, posts, matches = time.perf_counter(), 0, 0
        for piece in pieces:
            matches += len(matcher.match(piece, none[: len(piece)]))
            posts += len(piece)
            if time.perf_counter() - start > _MAX_SECONDS:
                break
        rates.append(posts / (time.perf_counter() - start))
    return rates, matches / posts


def peak_bytes() -> int:
    """Return the peak memory of this process. /proc first: a child inherits the value of `getrusage`."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    print(json.dumps(measure_one(Path(sys.argv[1]))))
