"""Two lanes for visits: most feeds take the fast one; slow servers and expensive documents take the slow one.

A visit in the fast lane that takes too long is postponed: it is repeated in the slow lane, which has rounds,
connections and parsers of its own. So a slow server delays only others of its kind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Lane:
    """Limits of the visits of one lane. A round is a group of feeds that are visited concurrently."""

    name: str
    parse_cpu_s: float  # of one document
    start_s: float  # after that a round starts no visits: the feeds stay due
    fetch_s: float  # after that a round postpones the visits that still fetch
    parse_budget_s: float  # CPU time of expensive documents per owner, crawler and round; others are postponed
    host_s: float  # requests to one host per round; its other feeds wait for the next
    max_feeds: int  # per round
    rounds: int  # simultaneous ones
    gap_s: float  # between the starts of rounds that are not full: a round costs CPU time, however small
    is_last: bool  # a visit that exceeds its limits fails instead of being postponed


FAST = Lane("fast", 0.25, 1.0, 2.0, 2.0, 1.0, max_feeds=5_000, rounds=2, gap_s=0.4, is_last=False)
SLOW = Lane("slow", 5.0, 10.0, 35.0, 20.0, 20.0, max_feeds=400, rounds=1, gap_s=1.0, is_last=True)
LANES = (FAST, SLOW)
_NEVER_S = 1e9
ONLY = replace(SLOW, name="only", start_s=_NEVER_S, fetch_s=_NEVER_S, parse_budget_s=_NEVER_S)  # without lanes
CHEAP_CPU_S = 0.05  # a document that takes less does not count towards any budget
_LONG_REQUEST_S = 1.0  # a feed that took longer last time, or was expensive to parse, starts in the slow lane
_EXPENSIVE_CPU_S = 0.2


@dataclass(slots=True)
class VisitCost:
    """Seconds of the requests of a visit, and CPU seconds of parsing."""

    fetch_s: float = 0.0
    parse_cpu_s: float = 0.0

    @property
    def is_expensive(self) -> bool:
        """Whether parsing took so much CPU time that the next visit is parsed after others."""
        return self.parse_cpu_s > _EXPENSIVE_CPU_S

    @property
    def is_slow(self) -> bool:
        """Whether the next visit belongs into the slow lane."""
        return self.is_expensive or self.fetch_s > _LONG_REQUEST_S
