"""How the correlations of a stream are doing: written beside them after every batch, for whoever asks."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from tidings.atomic_io import write_whole

FOLDER = "correlations"  # in the state of a stream: all there is of them
FILE = "figures.json"


@dataclass(frozen=True, slots=True)
class CorrelationFigures:
    """Counts are of all runs. `rows` came, of which some were `tagged` and have a time that can be read; of these some
    came too `late`, or are dated too far `ahead`."""

    window_us: int
    slide_us: int
    algorithm: str
    most_partitions: int
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
    newest_us: int | None = None  # the time of the newest post
    partitions: int = 0  # in use now
    communication: float = 0.0
    gini: float = 0.0
    max_load: float = 0.0
    caught_up: int = 0
    additions: int = 0
    repartitions: dict[str, int] = field(default_factory=dict)  # how many, by reason
    last_repartitions: list[dict[str, Any]] = field(default_factory=list)
    window_end_us: int | None = None  # of the last window that was reported
    coefficients: int = 0  # in all runs


def save_correlations(folder: Path, figures: CorrelationFigures) -> None:
    """Write them so that a reader sees all of them or the ones before."""
    write_whole(folder / FILE, json.dumps(asdict(figures)))


def load_correlations(folder: Path) -> CorrelationFigures | None:
    """Those of the correlations in this folder; None where there are none."""
    try:
        told = json.loads((folder / FILE).read_text("utf-8"))
        known = {one.name for one in fields(CorrelationFigures)}
        return CorrelationFigures(**{name: value for name, value in told.items() if name in known})
    except (OSError, ValueError, TypeError, AttributeError):  # missing, damaged, or another program's
        return None


def changed(folder: Path, figures: CorrelationFigures, **changes: Any) -> CorrelationFigures:
    """The figures with some of them changed, saved."""
    found = replace(figures, **changes)
    save_correlations(folder, found)
    return found
