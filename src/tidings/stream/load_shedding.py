"""Decide what a batch sheds when it begins. The ledger records the decision, and a replayed batch sheds the same."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tidings.routing.shed import ShedDecision
from tidings.routing.stats import RoutingStats
from tidings.stream.backlog import Backlog
from tidings.stream.shed_controller import ShedController


class LoadShedder:
    """Sheds what exceeds the accepted latency; does nothing with the policy `off`."""

    def __init__(
        self,
        policy: str = "off",
        latency_s: float = 5.0,
        backlog: Backlog | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_on = policy != "off"
        self._is_warm = False
        self._backlog, self._clock = backlog, clock
        self._controller = ShedController(policy, latency_s)
        self._backlog_posts: float | None = None  # when the last batch began

    def decide(self, batch: int, files: Sequence[Path] = ()) -> str:
        """Return the record of what the batch sheds; empty: nothing. `files` are the input files of the batch."""
        if not self._is_on:
            return ""
        self._backlog_posts = self._backlog.posts(batch, files) if self._backlog is not None else None
        if self._backlog_posts is not None:
            self._controller = self._controller.decide(self._backlog_posts, self._clock())
        decision = self._controller.decision(batch)
        record = {"policy": decision.policy, "level": self._controller.state.level, "limit": decision.limit}
        return json.dumps(record) if decision.is_on else ""

    def observe_batch(self, batch: int, seconds: float, stats: RoutingStats) -> None:
        """Learn from a batch. The duration of the first one is ignored: it includes loading and compiling."""
        if self._is_on and self._is_warm:
            self._controller = self._controller.observe_batch(stats.posts, seconds, stats.spread.tolist())
        self._is_warm = True
        if self._is_on and self._backlog is not None:
            self._backlog.observe_batch(batch, stats.posts)

    def status(self) -> dict[str, object]:
        """Return metrics: the level, the backlog, and how long it will take."""
        if not self._is_on:
            return {}
        controller, level, posts = self._controller, self._controller.state.level, self._backlog_posts
        return {
            "shed": controller.policy,
            "shed_level": level,
            "shed_limit": controller.levels.limit(level) if level else None,
            "max_latency_s": controller.latency_s,
            "backlog_posts": None if posts is None else round(posts),
            "backlog_seconds": None if posts is None else round(controller.throughput.seconds(posts), 3),
        }


def parse_shed_record(record: str, batch: int) -> ShedDecision:
    """Return the decision that the ledger recorded for a batch."""
    if not record:
        return ShedDecision()
    content = json.loads(record)
    return ShedDecision(content["policy"], float(content["limit"]), batch)
