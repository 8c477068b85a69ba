"""The options of `tidings run`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tidings.balance.rebalance.options import RebalanceOptions
from tidings.balance.refresh_policy import RefreshPolicy
from tidings.balance.word_registry import DEFAULT_PARTITIONER
from tidings.config import MAX_POSTS_PER_BATCH
from tidings.correlate.settings import StreamCorrelationSettings
from tidings.store import Retention

_DEFAULT_RETENTION = Retention()
_DEFAULT_REFRESH_POLICY = RefreshPolicy()
_DEFAULT_REBALANCE = RebalanceOptions()


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What to run. The command has checked the values that are quick to check."""

    posts: str  # a directory or kafka://SERVERS/TOPIC
    store_url: str  # a directory or postgresql://…
    work_dir: Path
    sink: str = "store"  # or a directory, or kafka://SERVERS/TOPIC
    trigger: str = "500 milliseconds"
    max_posts_per_batch: int = MAX_POSTS_PER_BATCH
    master: str | None = None
    execution_mode: str = "auto"  # or "replicated", "partitioned"
    matchers: int | None = None
    partitioner: str = DEFAULT_PARTITIONER
    placement: str = "anchor"
    matcher: str = "kernel"
    refresh_policy: RefreshPolicy = _DEFAULT_REFRESH_POLICY
    rebalance: RebalanceOptions = _DEFAULT_REBALANCE
    shed: str = "off"
    max_latency_s: float = 5.0
    metrics_port: int | None = None
    retention: Retention = _DEFAULT_RETENTION
    clean_source: str = "off"  # or "delete": delete input files that are committed
    repin_lost_versions: bool = False
    once: bool = False  # stop when the input that exists is matched
    correlate: StreamCorrelationSettings | None = None

    @property
    def checkpoint(self) -> Path:
        return self.work_dir / "checkpoint"
