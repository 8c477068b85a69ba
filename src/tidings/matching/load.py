"""The load of matchers, as it was measured: what tells whether a plan is fair."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MatcherLoad:
    """What one matcher did in a batch, or in many: posts it was sent, matches it found, processor time it took.

    In the replicated plan there is one matcher, 0: the whole index, which every worker holds.
    """

    matcher: int
    posts: int
    matches: int
    seconds: float
    withheld: int = 0  # posts it should have been sent, and was spared

    def __add__(self, other: MatcherLoad) -> MatcherLoad:
        return MatcherLoad(
            self.matcher,
            self.posts + other.posts,
            self.matches + other.matches,
            self.seconds + other.seconds,
            self.withheld + other.withheld,
        )


def together(*loads: Iterable[MatcherLoad]) -> tuple[MatcherLoad, ...]:
    """One load a matcher, in the order of their numbers."""
    found: dict[int, MatcherLoad] = {}
    for load in (one for some in loads for one in some):
        found[load.matcher] = found[load.matcher] + load if load.matcher in found else load
    return tuple(found[matcher] for matcher in sorted(found))


def idle(matchers: int) -> tuple[MatcherLoad, ...]:
    """So many matchers that did nothing."""
    return tuple(MatcherLoad(matcher, 0, 0, 0.0) for matcher in range(matchers))


def imbalance(loads: Iterable[MatcherLoad]) -> float | None:
    """How many times the mean the busiest matcher takes: 1 when all take the same; None where there is no choice."""
    seconds = [load.seconds for load in loads]
    whole = sum(seconds)
    return max(seconds) * len(seconds) / whole if len(seconds) > 1 and whole else None
