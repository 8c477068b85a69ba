"""What every batch of a stream sheds: decided when it begins, noted in the ledger, the same when it is replayed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from tidings.routing.shed import Shed
from tidings.routing.stats import Noted
from tidings.stream.backlog import Unread
from tidings.stream.shed_controller import Pressure


class Shedder:
    """Watches the posts that are unread, and sheds what is more than can be worked off in time."""

    def __init__(
        self,
        policy: str = "off",
        latency_s: float = 5.0,
        unread: Unread | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_on = policy != "off"
        self._is_warm = False
        self._unread, self._clock = unread, clock
        self.pressure = Pressure(policy, latency_s)
        self.waiting: float | None = None  # unread when the last batch began

    def decide(self, batch: int) -> str:
        """What the batch is to shed, as the ledger keeps it; empty: nothing."""
        if not self._is_on:
            return ""
        self.waiting = self._unread.posts(batch) if self._unread is not None else None
        if self.waiting is not None:
            self.pressure = self.pressure.decided(self.waiting, self._clock())
        shed = self.pressure.shed(batch)
        noted = {"policy": shed.policy, "level": self.pressure.shedding.level, "limit": shed.limit}
        return json.dumps(noted) if shed.is_on else ""

    def measured(self, batch: int, seconds: float, noted: Noted) -> None:
        """After the batch; what the first one takes, while everything is loaded and compiled, tells nothing."""
        if self._is_on and self._is_warm:
            self.pressure = self.pressure.measured(noted.posts, seconds, noted.spread.tolist())
        self._is_warm = True
        if self._is_on and self._unread is not None:
            self._unread.taken(batch, noted.posts)

    def told(self) -> dict[str, object]:
        """For the figures: the level, and how long what is unread is going to take."""
        if not self._is_on:
            return {}
        known, level = self.pressure, self.pressure.shedding.level
        return {
            "shed": known.policy,
            "shed_level": level,
            "shed_limit": known.levels.limit(level) if level else None,
            "accepted_latency_s": known.latency_s,
            "unread_posts": None if self.waiting is None else round(self.waiting),
            "unread_seconds": None if self.waiting is None else round(known.pace.seconds(self.waiting), 3),
        }


def shed_of(noted: str, batch: int) -> Shed:
    """What the ledger says a batch sheds."""
    if not noted:
        return Shed()
    told = json.loads(noted)
    return Shed(told["policy"], float(told["limit"]), batch)
