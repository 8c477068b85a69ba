"""When a stream rebalances the load of its matchers."""

from __future__ import annotations

from dataclasses import dataclass

from tidings.balance.rebalance.global_policy import GlobalSettings

_DEFAULTS = GlobalSettings()


@dataclass(frozen=True, slots=True)
class RebalanceOptions:
    """`factor` triggers the local step, `interval_s` the global step; None disables a step.

    `cell_selection` is the algorithm that chooses the cells to move (`cell_selection.py`).
    """

    factor: float | None = 1.5  # largest load divided by smallest load
    cell_selection: str = "gr+"
    min_gain: float = 0.25  # of the mean load, by which the busiest matcher must exceed it
    min_busy_s: float = 0.002  # processor time of the busiest matcher that is enough to compare the matchers
    interval_s: float | None = _DEFAULTS.interval_s
    global_settings: GlobalSettings = _DEFAULTS
