"""What `tidings run` is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tidings.balance.rebalance.options import AdjustRules
from tidings.balance.refresh_policy import Rules
from tidings.balance.word_registry import DEFAULT
from tidings.config import MAX_POSTS_A_BATCH
from tidings.correlate.settings import LiveSettings
from tidings.store import Retention

Say = Callable[[str], None]
_DEFAULT_RETENTION = Retention()
_DEFAULT_RULES = Rules()
_DEFAULT_ADJUSTMENT = AdjustRules()


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """What to run, checked as far as is quick."""

    posts: str
    where: str  # of the store
    folder: Path
    deliver: str = "store"
    trigger: str = "500 milliseconds"
    max_posts_per_batch: int = MAX_POSTS_A_BATCH
    master: str | None = None
    plan: str = "auto"
    matchers: int | None = None
    partitioner: str = DEFAULT
    placement: str = "rarest"
    relearn: Rules = _DEFAULT_RULES
    adjust: AdjustRules = _DEFAULT_ADJUSTMENT
    shed: str = "off"
    latency_s: float = 5.0
    metrics_port: int | None = None
    retention: Retention = _DEFAULT_RETENTION
    processed: str = "keep"
    pin_anew: bool = False
    once: bool = False  # take what is there and end
    correlate: LiveSettings | None = None

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"
