"""What a soak says in the end: what went wrong, and what grew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

TRENDS = ("driver_mb", "jvm_mb", "workers_mb", "segments", "batch_ms", "latency_ms", "disk_mb")
_HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known when it is over."""

    ended_early: bool
    exit_code: int
    posts_put: int
    posts_taken: int
    marked_put: int
    marked_found: int
    matches: int
    unfinished: int
    rejected: int
    load: str  # what kept posts from being put or subscriptions from being changed
    said: tuple[str, ...]


def problems(seen: Seen) -> Iterator[str]:
    """What went wrong, a sentence each; nothing when all is well."""
    if seen.ended_early or seen.exit_code:
        when = "before its time" if seen.ended_early else "when it was asked to stop"
        yield f"the stream ended {when} with exit code {seen.exit_code}: {' | '.join(seen.said)}"
    if seen.posts_taken != seen.posts_put:
        yield f"{seen.posts_put:,} posts were put there, {seen.posts_taken:,} were taken"
    if seen.marked_found != seen.marked_put:
        yield f"{seen.marked_put:,} marked posts were put there, {seen.marked_found:,} matches were stored for them"
    if not seen.matches:
        yield "no match was stored"
    if seen.unfinished:
        yield f"{seen.unfinished:,} batches were begun and are not done"
    if seen.rejected:
        yield f"{seen.rejected:,} rows were rejected"
    if seen.load:
        yield f"posts could not be put or subscriptions not be changed: {seen.load}"
    yield from (f"the stream said: {line}" for line in seen.said if "failed" in line)


def columns(samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What was seen, a list for each quantity; of disk use a list for each kind."""
    names = samples[0] if samples else {}
    plain = {name: [one[name] for one in samples] for name in names if name != "disk_mb"}
    kinds = samples[0]["disk_mb"] if samples else {}
    return {**plain, "disk_mb": {kind: [one["disk_mb"][kind] for one in samples] for kind in kinds}}


def trends(samples: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Of each quantity the mean and the largest of the second half of the run, and how much it grew there an hour."""
    late = samples[len(samples) // 2 :]
    found = {}
    for name in TRENDS:
        points = [(one["at_s"], value) for one in late if (value := _value(one, name)) is not None]
        if len(points) > 1:
            at_s, values = np.array(points, np.float64).T
            found[name] = {
                "mean": float(values.mean()),
                "most": float(values.max()),
                "per_hour": float(np.polyfit(at_s, values, 1)[0]) * _HOUR_S,
            }
    return found


def _value(sample: Mapping[str, Any], name: str) -> float | None:
    value = sample[name]
    return sum(value.values()) if isinstance(value, dict) else value
