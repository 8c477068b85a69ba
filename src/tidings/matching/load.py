"""Measured load per matcher, which shows whether a plan is balanced."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MatcherLoad:
    """Load of one matcher in one or more batches: posts received, matches found, processor time.

    In replicated mode there is one matcher, 0, with the whole index.
    """

    matcher: int
    posts: int
    matches: int
    seconds: float
    shed: int = 0  # posts that load shedding did not send to it

    def __add__(self, other: MatcherLoad) -> MatcherLoad:
        return MatcherLoad(
            self.matcher,
            self.posts + other.posts,
            self.matches + other.matches,
            self.seconds + other.seconds,
            self.shed + other.shed,
        )


def sum_loads(*loads: Iterable[MatcherLoad]) -> tuple[MatcherLoad, ...]:
    """Return one load per matcher, sorted by matcher."""
    totals: dict[int, MatcherLoad] = {}
    for load in itertools.chain.from_iterable(loads):
        totals[load.matcher] = totals[load.matcher] + load if load.matcher in totals else load
    return tuple(totals[matcher] for matcher in sorted(totals))


def idle_loads(matchers: int) -> tuple[MatcherLoad, ...]:
    """Return zero loads for this number of matchers."""
    return tuple(MatcherLoad(matcher, 0, 0, 0.0) for matcher in range(matchers))


def imbalance(loads: Iterable[MatcherLoad]) -> float | None:
    """Return the largest load divided by the mean (1 is perfect); None for fewer than two matchers or no load."""
    seconds = [load.seconds for load in loads]
    total = sum(seconds)
    return max(seconds) * len(seconds) / total if len(seconds) > 1 and total else None
