"""When a stream adjusts the load of its matchers."""

from __future__ import annotations

from dataclasses import dataclass

from tidings.balance.rebalance.global_policy import OverallSettings

_OVERALL = OverallSettings()


@dataclass(frozen=True, slots=True)
class AdjustRules:
    """When cells change hands, and when a whole new plan is looked for; None: never."""

    factor: float | None = 1.5  # the largest load against the smallest
    every_s: float | None = _OVERALL.every_seconds
    overall: OverallSettings = _OVERALL
