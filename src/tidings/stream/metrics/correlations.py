"""Metrics of the correlations of a stream, written next to them after every batch."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from tidings.atomic_io import write_atomically

FOLDER = "correlations"  # in the work directory of a stream
FILE = "metrics.json"


@dataclass(frozen=True, slots=True)
class CorrelationMetrics:
    """Counts are totals of all runs. Of `rows`, some are `tagged` and have a valid time; of these, some are too `late`
    or dated too far `ahead`."""

    window_us: int
    slide_us: int
    algorithm: str
    max_partitions: int
    state: str = "running"  # or "stopped", "failed"
    failure: str = ""
    batch: int = -1
    batch_seconds: float = 0.0
    rows: int = 0
    unreadable: int = 0
    untimed: int = 0
    capped: int = 0
    tagged: int = 0
    late: int = 0
    ahead: int = 0
    newest_us: int | None = None  # time of the newest post
    partitions: int = 0  # in use
    communication: float = 0.0
    gini: float = 0.0
    max_load: float = 0.0
    caught_up: int = 0
    additions: int = 0
    repartitions: dict[str, int] = field(default_factory=dict)  # by reason
    last_repartitions: list[dict[str, Any]] = field(default_factory=list)
    window_end_us: int | None = None  # of the last reported window
    coefficients: int = 0


def load_correlation_metrics(folder: Path) -> CorrelationMetrics | None:
    """Return the metrics in a folder; None if they are missing or damaged."""
    try:
        content = json.loads((folder / FILE).read_text("utf-8"))
        names = {field.name for field in fields(CorrelationMetrics)}
        return CorrelationMetrics(**{name: value for name, value in content.items() if name in names})
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def update_correlation_metrics(folder: Path, metrics: CorrelationMetrics, **changes: Any) -> CorrelationMetrics:
    """Change some metrics, write all of them atomically, and return them."""
    updated = replace(metrics, **changes)
    write_atomically(folder / FILE, json.dumps(asdict(updated)))
    return updated
