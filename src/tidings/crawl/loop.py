"""Crawl in rounds: visit the feeds that are due, store new articles, write them to the inbox of the stream."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tidings.crawl.decide import VisitOutcome
from tidings.crawl.rate_limit import HostRateLimit, HostRateLimits
from tidings.failpoints import failpoint
from tidings.ingest.inbox import write_lines
from tidings.log import Event
from tidings.store import DueFeed, Store

LOG = logging.getLogger("tidings.crawl")
VisitFeeds = Callable[[Sequence[DueFeed], Mapping[int, str]], list[VisitOutcome]]
"""Visits feeds, given what is known of their articles by feed id; returns no outcomes when it was stopped."""

FEEDS_PER_ROUND = 5_000  # results are stored when all feeds of a round were visited
_POLL_S = 2.0  # feeds may be added while none is due
_ONCE_MAX_WAIT_S = 60.0  # how long `once` waits for a rate-limited host


@dataclass(slots=True)
class CrawlStats:
    """Totals of one run."""

    rounds: int = 0
    visits: int = 0
    articles: int = 0
    updates: int = 0
    wire_bytes: int = 0
    steps: Counter[str] = field(default_factory=Counter)

    def add(self, outcomes: list[VisitOutcome], articles: int) -> None:
        self.rounds += 1
        self.visits += len(outcomes)
        self.articles += articles
        self.updates += sum(outcome.updated for outcome in outcomes)
        self.wire_bytes += sum(outcome.wire_bytes for outcome in outcomes)
        self.steps.update(outcome.step for outcome in outcomes)


class CrawlLoop:
    """The rounds of one run."""

    def __init__(self, store: Store, inbox: Path, rate_limit: HostRateLimit, visit: VisitFeeds) -> None:
        self._store, self._inbox, self._visit = store, inbox, visit
        self._hosts = HostRateLimits(rate_limit)
        self._stats = CrawlStats()

    def run(self, stop: threading.Event, once: bool = False) -> CrawlStats:
        """Run until stopped or, with `once`, until all feeds that were due at the start are visited."""
        started_at = time.time()
        send_outbox(self._store, self._inbox, self._stats.rounds)
        while not stop.is_set():
            now = time.time()
            due = self._store.feeds.due(started_at if once else now, 4 * FEEDS_PER_ROUND)
            feeds = self._hosts.select_visitable(due, now)[:FEEDS_PER_ROUND]
            if feeds:
                self._run_round(feeds)
            elif once and not self._is_worth_waiting(due, now):
                break
            else:
                stop.wait(min(_POLL_S, self._idle_s(due, now)))
        return self._stats

    def _is_worth_waiting(self, due: list[DueFeed], now: float) -> bool:
        free_at = self._hosts.next_free_at(due)
        return free_at is not None and free_at < now + _ONCE_MAX_WAIT_S

    def _idle_s(self, due: list[DueFeed], now: float) -> float:
        """Return the seconds until a host may be visited again, or until the next feed is due."""
        at = self._hosts.next_free_at(due) if due else self._store.feeds.next_due_at()
        return _POLL_S if at is None else max(0.01, at - now)

    def _run_round(self, feeds: list[DueFeed]) -> None:
        start = time.monotonic()
        outcomes = self._visit(feeds, self._store.feeds.known_articles([feed.id for feed in feeds]))
        if not outcomes:  # stopped: the feeds stay due
            return
        urls = {feed.id: feed.url for feed in feeds}
        for outcome in outcomes:
            self._hosts.record_request(urls[outcome.visited.feed], time.time(), outcome.wait_s)
        number = self._stats.rounds
        failpoint("before-store-articles", number)
        articles = self._store.feeds.record_visits([outcome.visited for outcome in outcomes])
        failpoint("after-store-articles", number)
        send_outbox(self._store, self._inbox, number)
        self._stats.add(outcomes, articles)
        _log_round(outcomes, articles, time.monotonic() - start)


def send_outbox(store: Store, inbox: Path, round_number: int) -> None:
    """Write the articles in the outbox to the inbox of the stream; a repeated write uses the same file name."""
    for row in store.feeds.outbox():
        failpoint("before-put-articles", round_number)
        write_lines(inbox, f"crawl-{row.number}", [row.lines])
        failpoint("after-put-articles", round_number)
        store.feeds.mark_sent(row.number)


def _log_round(outcomes: list[VisitOutcome], articles: int, seconds: float) -> None:
    steps = Counter(outcome.step for outcome in outcomes)
    LOG.info(
        Event(
            "round finished",
            feeds=len(outcomes),
            articles=articles,
            unchanged=steps["unchanged"] + steps["same"],
            failed=steps["failed"],
            bytes=sum(outcome.wire_bytes for outcome in outcomes),
            seconds=round(seconds, 1),
        )
    )
