"""Crawl in rounds: visit the feeds that are due, store new articles, write them to the inbox of the stream.

Several rounds run at the same time, in two lanes (`lanes.py`). Each is stored as soon as it is finished. A host is
visited by one round at a time, so that its rate limits hold.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tidings.crawl.decide import POSTPONED, VisitOutcome
from tidings.crawl.lane_choice import LaneChoice
from tidings.crawl.lanes import FAST, LANES, Lane
from tidings.crawl.rate_limit import HostRateLimit, HostRateLimits, VisitLimits
from tidings.errors import OutputError
from tidings.failpoints import failpoint
from tidings.ingest.inbox import write_lines
from tidings.log import Event
from tidings.net.urls import host_of
from tidings.store import DueFeed, Store

LOG = logging.getLogger("tidings.crawl")
VisitFeeds = Callable[[Sequence[DueFeed], Mapping[int, str], Lane], list[VisitOutcome]]
"""Visits feeds, given what is known of their articles by feed id, in a lane; called by several threads.

Feeds without an outcome stay due: it was stopped, or there was no time.
"""

_MAX_DUE = 20_000  # feeds to choose from: those of a host with very many feeds must not hide others
_POLL_S = 0.25  # feeds may be added at any time
_POLL_SHARE = 0.1  # looking for feeds may take that share of the time
_ONCE_MAX_WAIT_S = 60.0  # how long `once` waits for a rate-limited host
_ROUND_S = 1.5  # what a round in the fast lane should take
_FIRST_ROUND_FEEDS, _MIN_ROUND_FEEDS = 500, 100


@dataclass(slots=True)
class CrawlStats:
    """Totals of one run."""

    rounds: int = 0
    visits: int = 0
    articles: int = 0
    updates: int = 0
    wire_bytes: int = 0
    postponed: int = 0
    steps: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    error: str = ""  # of one feed that failed

    def add(self, outcomes: Sequence[VisitOutcome], articles: int) -> None:
        visited = [outcome for outcome in outcomes if outcome.step != POSTPONED]
        self.rounds += 1
        self.visits += len(visited)
        self.postponed += len(outcomes) - len(visited)
        self.articles += articles
        self.updates += sum(outcome.updated for outcome in visited)
        self.wire_bytes += sum(outcome.wire_bytes for outcome in visited)
        self.steps.update(outcome.step for outcome in visited)
        self.error = next((outcome.visited.error for outcome in visited if outcome.step == "failed"), self.error)


@dataclass(frozen=True, slots=True)
class _Round:
    """Feeds that are visited together."""

    lane: Lane
    feeds: Sequence[DueFeed]
    hosts: set[str]
    is_full: bool
    start_s: float = field(default_factory=time.monotonic)
    started_at: float = field(default_factory=time.time)


class CrawlLoop:
    """The rounds of one run."""

    def __init__(self, store: Store, inbox: Path, rate_limit: HostRateLimit, visit: VisitFeeds) -> None:
        self._store, self._inbox, self._visit = store, inbox, visit
        self._hosts = HostRateLimits(rate_limit)
        self._lanes = LaneChoice(store.feeds.followers)
        self._running: dict[Future[list[VisitOutcome]], _Round] = {}
        self._started_at: dict[Lane, float] = {}
        self._round_feeds = _FIRST_ROUND_FEEDS
        self._stats = CrawlStats()

    def run(self, stop: threading.Event, once: bool = False) -> CrawlStats:
        """Run until stopped or, with `once`, until all feeds that were due at the start are visited."""
        started_at, start = time.time(), time.monotonic()
        send_outbox(self._store, self._inbox, self._stats.rounds)
        with _threads(sum(lane.rounds for lane in LANES)) as threads:
            while not stop.is_set():
                now, poll_start = time.time(), time.monotonic()
                due = self._find_due(started_at if once else now)
                self._start_rounds(threads, due, now)
                if once and not self._running and not self._is_worth_waiting(due, now):
                    break
                self._store_finished(max(_POLL_S, (time.monotonic() - poll_start) / _POLL_SHARE), stop)
            while self._running:
                self._store_finished(None, stop)
        self._stats.seconds = time.monotonic() - start
        return self._stats

    def _find_due(self, until: float) -> list[DueFeed]:
        """Return the feeds that are due and not being visited."""
        if not self._free_lanes():
            return []
        visiting = {feed.id for running in self._running.values() for feed in running.feeds}
        return [feed for feed in self._store.feeds.due(until, _MAX_DUE) if feed.id not in visiting]

    def _free_lanes(self) -> list[Lane]:
        rounds = Counter(running.lane for running in self._running.values())
        return [lane for lane in LANES if rounds[lane] < lane.rounds]

    def _start_rounds(self, threads: ThreadPoolExecutor, due: list[DueFeed], now: float) -> None:
        """Start at most one round per lane."""
        feeds_of = self._lanes.split(due, now)
        for lane in self._free_lanes():
            busy = {host for running in self._running.values() for host in running.hosts}
            size = self._round_feeds if lane is FAST else lane.max_feeds
            feeds = self._hosts.select_visitable(feeds_of[lane], now, VisitLimits(size, lane.host_s, busy))
            is_early = now < self._started_at.get(lane, 0.0) + lane.gap_s
            if feeds and (len(feeds) == size or not is_early):
                known = self._store.feeds.known_articles([feed.id for feed in feeds])
                started = threads.submit(self._visit, feeds, known, lane)
                hosts = {host_of(feed.url) for feed in feeds}
                self._running[started] = _Round(lane, feeds, hosts, is_full=len(feeds) == size)
                self._started_at[lane] = now

    def _is_worth_waiting(self, due: list[DueFeed], now: float) -> bool:
        free_at = self._hosts.next_free_at(due)
        return free_at is not None and free_at < now + _ONCE_MAX_WAIT_S

    def _store_finished(self, seconds: float | None, stop: threading.Event) -> None:
        """Wait until a round is finished, at most for some seconds; store all that are."""
        if not self._running:
            stop.wait(seconds)
            return
        for finished in wait(self._running, seconds, FIRST_COMPLETED).done:
            visited = self._running.pop(finished)
            if outcomes := finished.result():
                self._store_round(visited, outcomes)

    def _store_round(self, visited: _Round, outcomes: list[VisitOutcome]) -> None:
        seconds, now = time.monotonic() - visited.start_s, time.time()
        if visited.is_full and visited.lane is FAST:
            self._adapt_round_size(len(outcomes), seconds)
        urls = {feed.id: feed.url for feed in visited.feeds}
        for outcome in outcomes:
            at = min(now, max(visited.started_at, outcome.visited.checked_at))  # the crawler may have another clock
            self._hosts.record_request(urls[outcome.visited.feed], at, outcome.wait_s)
        self._lanes.record(outcomes, urls, now)
        number = self._stats.rounds
        failpoint("before-store-articles", number)
        articles = self._store.feeds.record_visits(
            [outcome.visited for outcome in outcomes if outcome.step != POSTPONED]
        )
        failpoint("after-store-articles", number)
        send_outbox(self._store, self._inbox, number)
        self._stats.add(outcomes, articles)
        _log_round(visited, outcomes, articles, seconds)

    def _adapt_round_size(self, feeds: int, seconds: float) -> None:
        """Let the next round take about _ROUND_S: its results are stored, and new feeds start, when it ends."""
        wanted = int(feeds * _ROUND_S / max(seconds, 0.01))
        wanted = min(max(wanted, self._round_feeds // 2), self._round_feeds * 2)
        self._round_feeds = min(max(wanted, _MIN_ROUND_FEEDS), FAST.max_feeds)


@contextmanager
def _threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that run rounds. After an error, the caller ends what still runs in them."""
    threads = ThreadPoolExecutor(count, thread_name_prefix="tidings-round")
    try:
        yield threads
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def send_outbox(store: Store, inbox: Path, round_number: int) -> None:
    """Write the articles in the outbox to the inbox of the stream; a repeated write uses the same file name.

    Raises OutputError. The outbox keeps the articles until they are written.
    """
    for row in store.feeds.outbox():
        failpoint("before-put-articles", round_number)
        try:
            write_lines(inbox, f"crawl-{row.number}", [row.lines])
        except OSError as error:
            raise OutputError(f"{inbox}: articles cannot be written ({error.strerror or error}).") from error
        failpoint("after-put-articles", round_number)
        store.feeds.mark_sent(row.number)


def _log_round(visited: _Round, outcomes: list[VisitOutcome], articles: int, seconds: float) -> None:
    steps = Counter(outcome.step for outcome in outcomes)
    LOG.info(
        Event(
            "round finished",
            lane=visited.lane.name,
            feeds=len(outcomes),
            articles=articles,
            unchanged=steps["unchanged"] + steps["same"],
            failed=steps["failed"],
            postponed=steps[POSTPONED],
            bytes=sum(outcome.wire_bytes for outcome in outcomes),
            seconds=round(seconds, 1),
        )
    )
