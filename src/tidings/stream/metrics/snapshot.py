"""How a stream is doing: the figures it writes beside its state after every batch, for whoever asks."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from tidings.atomic_io import write_whole
from tidings.matching.load import MatcherLoad

FILE = "figures.json"


@dataclass(frozen=True, slots=True)
class StreamFigures:
    """Figures of one run. Totals count since it started; rates and durations are of the last batch that had posts."""

    pid: int
    host: str
    stream: str
    source: str
    started_at: float
    updated_at: float
    state: str = "running"  # or "stopped", "failed"
    failure: str = ""
    batch: int = -1
    batches: int = 0
    posts: int = 0
    matches: int = 0
    rejected: int = 0
    posts_per_second: float = 0.0
    arriving_per_second: float = 0.0
    waiting_posts: int | None = None  # what has arrived and is not yet taken; None where the source cannot tell
    waiting_files: int | None = None
    batch_seconds: float = 0.0
    durations_ms: dict[str, int] = field(default_factory=dict)  # Spark's own and ours, by what they were spent on
    index_version: int = 0
    plan: str = "replicated"
    plan_version: int = 1
    partitioner: str = ""  # how words are shared out, where they are
    shared_out: str = "words"  # or "places and words"
    placement: str = ""
    plan_value: float | None = None  # imbalance × spread, measured last; None before it was
    plan_value_at_first: float | None = None  # and right after the plan was learned
    learning: bool = False  # whether a new plan is being learned, or this one changed
    adjustments: int = 0  # of a plan of places, since the start
    adjusted_bytes: int = 0  # of subscriptions that went from one matcher to another by these
    adjusting_seconds: float = 0.0  # from the decision to the batch that uses it, all together
    last_adjustment: dict[str, Any] = field(default_factory=dict)  # reason, bytes, seconds, at
    old_plan_share: float | None = None  # of the subscriptions that lie by the plan before; None: one plan
    segments: int = 0
    subscriptions: int = 0
    matchers: tuple[MatcherLoad, ...] = ()  # since the start
    batch_matchers: tuple[MatcherLoad, ...] = ()  # in the last batch that had posts
    shed: str = "off"
    shed_level: int = 0
    shed_limit: float | None = None  # to how many matchers a post may go now, or which part of the posts passes
    accepted_latency_s: float | None = None
    unread_posts: int | None = None  # when the last batch began, its own included; told where something may be shed
    unread_seconds: float | None = None  # how long these are going to take
    withheld: int = 0  # posts that matchers were spared, since the start
    withheld_owners: dict[str, int] = field(default_factory=dict)  # in all runs; those most was withheld from
    disk_bytes: dict[str, int] = field(default_factory=dict)  # by what takes it: store, index, checkpoint


def save_figures(folder: Path, figures: StreamFigures) -> None:
    """Write them so that a reader sees all of them or the ones before."""
    write_whole(folder / FILE, json.dumps(asdict(figures)))


def load_figures(folder: Path) -> StreamFigures | None:
    """The figures written last; None when no stream ever ran here. Fields this program does not know are left out."""
    try:
        told = json.loads((folder / FILE).read_text("utf-8"))
        return _understood(told) if isinstance(told, dict) else None
    except (OSError, ValueError, TypeError):  # missing, damaged, or another program's
        return None


def _understood(told: dict[str, Any]) -> StreamFigures:
    known = {one.name for one in fields(StreamFigures)}
    told = {name: value for name, value in told.items() if name in known}
    for name in ("matchers", "batch_matchers"):
        told[name] = tuple(MatcherLoad(**load) for load in told.get(name, ()))
    return StreamFigures(**told)
