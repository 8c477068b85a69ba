"""Choose the lane of each feed: by its last visit, and by what its host and its followers cost in the last minute."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import orjson

from tidings.crawl.decide import POSTPONED, VisitOutcome
from tidings.crawl.lanes import CHEAP_CPU_S, FAST, SLOW, Lane, VisitCost
from tidings.net.urls import host_of
from tidings.store.feeds import DueFeed

FindFollowers = Callable[[Sequence[int]], Mapping[int, Sequence[str]]]
"""(feeds) → the owners that follow each of them"""

WINDOW_S = 60.0
HOST_BUDGET_S, OWNER_BUDGET_S = 1.0, 3.0  # per window
POSTPONED_S = 0.5  # what a postponed visit costs at least
_REMEMBER_S = 600.0  # how long a feed that was postponed stays in the slow lane without a visit


@dataclass(slots=True)
class CostWindow:
    """Costs in seconds by name over the last minute."""

    budget_s: float
    _costs: deque[tuple[float, str, float]] = field(default_factory=deque)
    _totals: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, seconds: float, now: float) -> None:
        self._costs.append((now, name, seconds))
        self._totals[name] = self._totals.get(name, 0.0) + seconds

    def find_exceeded(self, now: float) -> set[str]:
        """Return the names whose budget is spent."""
        while self._costs and self._costs[0][0] <= now - WINDOW_S:
            _, name, seconds = self._costs.popleft()
            self._totals[name] -= seconds
            if self._totals[name] < CHEAP_CPU_S:  # each entry costs more; this is a rounding error
                del self._totals[name]
        return {name for name, seconds in self._totals.items() if seconds >= self.budget_s}


@dataclass(slots=True)
class LaneChoice:
    """What is known about costs in this run; the cost of the last visit is stored with each feed."""

    find_followers: FindFollowers
    _postponed: dict[int, float] = field(default_factory=dict)  # feed → when
    _hosts: CostWindow = field(default_factory=lambda: CostWindow(HOST_BUDGET_S))
    _owners: CostWindow = field(default_factory=lambda: CostWindow(OWNER_BUDGET_S))

    def split(self, due: Sequence[DueFeed], now: float) -> dict[Lane, list[DueFeed]]:
        """Return the feeds of each lane in the given order, in the slow lane those with fewest failures first.

        Owners take turns: one with very many feeds must not delay others.
        """
        hosts, is_over = self._hosts.find_exceeded(now), self._find_over_budget(due, now)
        lanes: dict[Lane, list[DueFeed]] = {FAST: [], SLOW: []}
        failures: dict[int, int] = {}
        for feed in due:
            memory = orjson.loads(feed.visit)
            failures[feed.id] = memory.get("rhythm", {}).get("failures", 0)
            is_slow = feed.id in self._postponed or host_of(feed.url) in hosts or feed.id in is_over
            is_slow = is_slow or VisitCost(**memory.get("cost", {})).is_slow
            lanes[SLOW if is_slow else FAST].append(feed)
        lanes[SLOW].sort(key=lambda feed: failures[feed.id])
        return {lane: self._take_turns(feeds) for lane, feeds in lanes.items()}

    def _take_turns(self, feeds: Sequence[DueFeed]) -> list[DueFeed]:
        """Return one feed of each owner, then a second one of each, and so on, with the owner whose turn it is."""
        followers = self.find_followers([feed.id for feed in feeds]) if feeds else {}
        turns = Counter[str]()
        in_turn: list[tuple[int, DueFeed]] = []
        for feed in feeds:
            owner = min(followers.get(feed.id, ("",)), key=turns.__getitem__)
            turns[owner] += 1
            in_turn.append((turns[owner], feed._replace(owner=owner)))
        return [feed for _, feed in sorted(in_turn, key=itemgetter(0))]

    def _find_over_budget(self, due: Sequence[DueFeed], now: float) -> set[int]:
        """Return the feeds that were never read and whose followers have all spent their budgets."""
        owners = self._owners.find_exceeded(now)
        if not owners:
            return set()
        unknown = [feed.id for feed in due if orjson.loads(feed.visit).get("read_at") is None]
        return {feed for feed, followers in self.find_followers(unknown).items() if owners.issuperset(followers)}

    def record(self, outcomes: Sequence[VisitOutcome], urls: Mapping[int, str], now: float) -> None:
        """Charge expensive and postponed visits to hosts and followers; each follower pays an equal part."""
        costs = {outcome.visited.feed: _cost_s(outcome) for outcome in outcomes}
        costs = {feed: seconds for feed, seconds in costs.items() if seconds}
        followers = self.find_followers(list(costs)) if costs else {}
        for feed, seconds in costs.items():
            self._hosts.add(host_of(urls[feed]), seconds, now)
            for owner in followers.get(feed, ()):
                self._owners.add(owner, seconds / len(followers[feed]), now)
        self._remember(outcomes, now)

    def _remember(self, outcomes: Sequence[VisitOutcome], now: float) -> None:
        for outcome in outcomes:
            if outcome.step == POSTPONED:
                self._postponed[outcome.visited.feed] = now
            else:
                self._postponed.pop(outcome.visited.feed, None)
        self._postponed = {feed: at for feed, at in self._postponed.items() if at > now - _REMEMBER_S}


def _cost_s(outcome: VisitOutcome) -> float:
    """Return what a visit costs others; ordinary visits are free."""
    if outcome.step == POSTPONED:
        return max(POSTPONED_S, outcome.parse_cpu_s)
    return outcome.parse_cpu_s if outcome.parse_cpu_s > CHEAP_CPU_S else 0.0
