"""Evaluation of a soak test: problems and trends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidings_lab.process_memory import ROLES

MEMORY_TRENDS = tuple(f"{role}_private_mb" for role in ROLES)
TRENDS = (*MEMORY_TRENDS, "driver_mb", "jvm_mb", "workers_mb", "segments", "batch_ms", "latency_ms", "disk_mb")
MAX_WORKER_GROWTH_MB_PER_HOUR = 20.0
_MIN_MINUTES = 30.0  # in a shorter run, the growth of the first minutes has not ended
_HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class SoakOutcome:
    """Counts at the end of a soak test."""

    ended_early: bool
    exit_code: int
    posts_written: int
    posts_read: int
    marked_written: int
    marked_found: int
    matches: int
    unfinished: int
    rejected: int
    load_error: str  # why posts could not be written or subscriptions not be changed
    output_lines: tuple[str, ...]
    restarts: int = 0  # of the stream


def find_problems(outcome: SoakOutcome) -> Iterator[str]:
    """Yield a sentence per problem."""
    if outcome.ended_early or outcome.exit_code:
        when = "early" if outcome.ended_early else "when it was stopped"
        yield f"the stream ended {when} with exit code {outcome.exit_code}: {' | '.join(outcome.output_lines)}"
    if outcome.restarts:
        yield f"the stream was restarted ({outcome.restarts} times)"
    if outcome.posts_read != outcome.posts_written:
        yield f"{outcome.posts_written:,} posts were written, {outcome.posts_read:,} were read"
    if outcome.marked_found != outcome.marked_written:
        yield f"{outcome.marked_written:,} marked posts were written, {outcome.marked_found:,} matches stored"
    if not outcome.matches:
        yield "no match was stored"
    if outcome.unfinished:
        yield f"{outcome.unfinished:,} batches were started but not committed"
    if outcome.rejected:
        yield f"{outcome.rejected:,} rows were rejected"
    if outcome.load_error:
        yield f"the load failed: {outcome.load_error}"
    yield from (f"the stream printed: {line}" for line in outcome.output_lines if "failed" in line)


def to_columns(samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the samples as one list per quantity; disk use as one list per kind."""
    names = samples[0] if samples else {}
    plain = {name: [sample[name] for sample in samples] for name in names if name != "disk_mb"}
    kinds = samples[0]["disk_mb"] if samples else {}
    return {**plain, "disk_mb": {kind: [sample["disk_mb"][kind] for sample in samples] for kind in kinds}}


def compute_trends(samples: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return mean, maximum and growth per hour of each quantity in the second half of the run."""
    second_half = samples[len(samples) // 2 :]
    trends = {}
    for name in TRENDS:
        points = [(sample["at_s"], value) for sample in second_half if (value := _value(sample, name)) is not None]
        if len(points) > 1:
            at_s, values = np.array(points, np.float64).T
            trends[name] = {
                "mean": float(values.mean()),
                "max": float(values.max()),
                "per_hour": fit_slope(at_s, values) * _HOUR_S,
            }
    return trends


def fit_slope(at: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    """Return the slope by Theil and Sen, the median over all pairs of points: single outliers do not change it."""
    first, second = np.triu_indices(len(at), 1)
    return float(np.median((values[second] - values[first]) / (at[second] - at[first])))


def find_growth(trends: Mapping[str, Mapping[str, float]], minutes: float) -> Iterator[str]:
    """Yield a sentence if the private memory of the workers grows. Short runs are not judged."""
    growth = trends.get("workers_private_mb", {}).get("per_hour", 0.0)
    if minutes >= _MIN_MINUTES and growth > MAX_WORKER_GROWTH_MB_PER_HOUR:
        limit = f"{MAX_WORKER_GROWTH_MB_PER_HOUR:g}"
        yield f"the private memory of the Python workers grows by {growth:,.1f} MB per hour (at most {limit} allowed)"


def _value(sample: Mapping[str, Any], name: str) -> float | None:
    value = sample.get(name)
    return sum(value.values()) if isinstance(value, dict) else value
