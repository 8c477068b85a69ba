"""A snapshot of the metrics of a stream, which it writes next to its state after every batch."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from tidings.atomic_io import write_atomically
from tidings.matching.load import MatcherLoad

FILE = "metrics.json"
_FILE_0_1 = "figures.json"  # until the first run of a later version renames it
_BLOCK_BYTES = 4_096
_SPARE_BYTES = 2_048  # blanks at the end of the file: room for the reason of a failure
_Record = TypeVar("_Record")


@dataclass(frozen=True, slots=True)
class StreamSnapshot:
    """Metrics of one run. Totals count since its start; rates and durations are of the last batch that had posts."""

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
    pending_posts: int | None = None  # arrived and not read yet; None if the source does not report it
    pending_files: int | None = None
    batch_seconds: float = 0.0
    durations_ms: dict[str, int] = field(default_factory=dict)  # by phase, Spark's and ours
    index_version: int = 0
    execution_mode: str = "replicated"
    plan_version: int = 1
    partitioner: str = ""  # empty if the index is replicated
    waiting_subscriptions: int = 0  # that are not in the index yet
    partitioned_by: str = "words"  # or "regions and words"
    placement: str = ""
    plan_value: float | None = None  # imbalance × spread, measured last
    plan_value_when_learned: float | None = None
    last_plan_comparison: dict[str, Any] = field(default_factory=dict)  # gain, low_gain, posts, is_replaced, at
    wanted_matchers: int | None = None  # requested, if the index has another number
    is_building_plan: bool = False  # a plan is being fitted or rebalanced
    rebalances: int = 0
    rebalance_checks: int = 0  # how often the time of the matchers was compared
    rebalanced_bytes: int = 0  # written to disk, including the plan
    rebalance_seconds: float = 0.0  # from each decision to the batch that uses it, in total
    last_rebalance: dict[str, Any] = field(default_factory=dict)  # reason, bytes, seconds, at, pairs, cells, …
    rebalance_failure: dict[str, Any] = field(default_factory=dict)  # count, reason, retry_at; empty after a success
    last_evaluation: dict[str, Any] = field(default_factory=dict)  # of a new spatial plan, see `GlobalRebalancer`
    previous_plan_share: float | None = None  # of subscriptions; None if there is only one plan
    segments: int = 0
    subscriptions: int = 0
    matchers: tuple[MatcherLoad, ...] = ()  # since the start
    batch_matchers: tuple[MatcherLoad, ...] = ()  # in the last batch that had posts
    shed: str = "off"
    shed_level: int = 0
    shed_limit: float | None = None  # matchers per post, or the share of posts that are routed
    max_latency_s: float | None = None
    backlog_posts: int | None = None  # when the last batch began, including its posts; only with shedding
    backlog_seconds: float | None = None
    shed_posts: int = 0  # (post, matcher) pairs that were not sent
    shed_by_owner: dict[str, int] = field(default_factory=dict)  # in all runs; the owners with the most shed work
    disk_bytes: dict[str, int] = field(default_factory=dict)  # by part: store, index, checkpoint


def save_snapshot(folder: Path, snapshot: StreamSnapshot) -> None:
    """Write a snapshot atomically. If the disk is full, the last one of a run is written over the one before it."""
    content = json.dumps(asdict(snapshot)).encode()
    size = -(-(len(content) + _SPARE_BYTES) // _BLOCK_BYTES) * _BLOCK_BYTES
    try:
        write_atomically(folder / FILE, content.ljust(size).decode())
    except OSError:
        if snapshot.state == "running" or not _overwrite(folder / FILE, content):
            raise


def _overwrite(file: Path, content: bytes) -> bool:
    """Replace the content in the space that the file has already; return False if it does not fit."""
    if not file.exists() or (size := file.stat().st_size) < len(content):
        return False
    with file.open("r+b") as old:
        old.write(content.ljust(size))
    return True


@contextmanager
def recorded_failure(folder: Path, source: str) -> Iterator[None]:
    """Record an error that ends this block in the snapshot, unless the metrics of this run have it already."""
    started_at = time.time()
    try:
        yield
    except Exception as error:
        last = load_snapshot(folder)
        if last is None or last.started_at < started_at:
            stream = "" if last is None else last.stream
            last = StreamSnapshot(os.getpid(), socket.gethostname(), stream, source, started_at, started_at)
        if last.state != "failed":
            with suppress(OSError):  # the disk may be full
                failure = str(error) or type(error).__name__
                save_snapshot(folder, replace(last, state="failed", failure=failure, updated_at=time.time()))
        raise


def load_snapshot(folder: Path) -> StreamSnapshot | None:
    """Return the last snapshot; None if no stream ran here. Unknown fields are ignored."""
    file = folder / FILE
    try:
        content = json.loads((file if file.exists() else folder / _FILE_0_1).read_text("utf-8"))
        loads = {
            name: tuple(_from_dict(MatcherLoad, load) for load in content.get(name, ()))
            for name in ("matchers", "batch_matchers")
        }
        return _from_dict(StreamSnapshot, {**content, **loads})
    except (OSError, ValueError, TypeError, AttributeError):  # missing or damaged
        return None


def _from_dict(record: type[_Record], content: dict[str, Any]) -> _Record:
    names = {field.name for field in fields(record)}  # type: ignore[arg-type]
    return record(**{name: value for name, value in content.items() if name in names})
