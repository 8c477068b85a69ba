"""Visit many feeds concurrently."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import aiohttp

from tidings.crawl import decide
from tidings.crawl.article import NotAFeed
from tidings.crawl.decide import FeedVisit, VisitOutcome
from tidings.crawl.fetch import FeedResponse, FetchFailed, FetchLimits, FetchTimedOut, fetch
from tidings.crawl.lanes import ONLY, Lane, VisitCost
from tidings.crawl.parser_pool import ParseBudgetSpent, ParserPool
from tidings.crawl.parser_process import ParserLimitExceeded, ParserProcess
from tidings.crawl.rate_limit import HostGate, HostRateLimit
from tidings.crawl.round_clock import RoundClock, RoundOver
from tidings.crawl.schedule import SchedulePolicy
from tidings.net.allowlist import PUBLIC_ONLY, AllowedNetworks
from tidings.net.ssrf_guard import USER_AGENT, guarded_session
from tidings.net.urls import mask_userinfo

_MAX_CONNECTIONS = 200


@dataclass(frozen=True, slots=True)
class CrawlOptions:
    """Options of all crawlers of a run."""

    schedule: SchedulePolicy = field(default_factory=SchedulePolicy)
    rate_limit: HostRateLimit = field(default_factory=HostRateLimit)
    limits: FetchLimits = field(default_factory=FetchLimits)
    allow: AllowedNetworks = PUBLIC_ONLY
    user_agent: str = USER_AGENT
    max_connections: int = _MAX_CONNECTIONS
    webhook_backlog: int = 0
    """Of the articles from before a feed was first read, webhooks send this many, the newest."""
    post_id_key: str = field(default="", repr=False)
    """A secret: ids of the articles of feeds with a password reveal nothing about it."""
    lane: Lane = ONLY

    def in_lane(self, lane: Lane) -> CrawlOptions:
        """Return the options for the rounds of a lane."""
        return replace(self, lane=lane)


class _Postponed(Exception):
    """A visit that takes too long for its lane."""


@dataclass(frozen=True, slots=True)
class _Round:
    """What the visits of one round share."""

    session: aiohttp.ClientSession
    gate: HostGate
    slots: asyncio.Semaphore
    clock: RoundClock


@dataclass(slots=True)
class Crawler:
    """Visits feeds. The parsers belong to the caller."""

    options: CrawlOptions
    parsers: Sequence[ParserProcess]
    clock: Callable[[], float] = time.time
    _pool: ParserPool = field(init=False)

    def __post_init__(self) -> None:
        lane = self.options.lane
        self._pool = ParserPool(self.parsers, lane.parse_cpu_s, lane.parse_budget_s)

    async def visit_all(self, feeds: Iterable[FeedVisit]) -> AsyncIterator[VisitOutcome]:
        """Yield an outcome per feed as the visits finish; a slow feed does not delay others.

        Feeds that the lane leaves no time for have no outcome; they stay due.
        """
        slots, gate = asyncio.Semaphore(self.options.max_connections), HostGate(self.options.rate_limit)
        async with self._session() as session:
            visits = _Round(session, gate, slots, RoundClock(self.options.lane.start_s, self.options.lane.fetch_s))
            clock = asyncio.create_task(visits.clock.run())
            tasks = [asyncio.create_task(self._visit_with_slot(feed, visits)) for feed in feeds]
            try:
                for done in asyncio.as_completed(tasks):
                    if (outcome := await done) is not None:
                        yield outcome
            finally:
                for task in (clock, *tasks):
                    task.cancel()
                await asyncio.gather(clock, *tasks, return_exceptions=True)

    def _session(self) -> aiohttp.ClientSession:
        return guarded_session(
            self.options.allow,
            user_agent=self.options.user_agent,
            timeout_s=self.options.limits.seconds,
            connections=2 * self.options.max_connections,
            auto_decompress=False,
        )

    async def _visit_with_slot(self, feed_visit: FeedVisit, visits: _Round) -> VisitOutcome | None:
        async with visits.slots:
            if not visits.clock.can_start:
                return None
            return await self.visit(visits.session, feed_visit, visits.gate, visits.clock)

    async def visit(
        self,
        session: aiohttp.ClientSession,
        feed_visit: FeedVisit,
        gate: HostGate,
        round_clock: RoundClock | None = None,
    ) -> VisitOutcome:
        """Fetch a feed and, if it changed, find its new articles."""
        round_clock = round_clock or RoundClock(self.options.lane.start_s, self.options.lane.fetch_s)
        visit = _Visit(self.options, session, feed_visit, gate, round_clock, self._pool, self.clock)
        try:
            return await visit.run()
        except (_Postponed, RoundOver, ParseBudgetSpent):
            return decide.decide_postponed(feed_visit, self.clock(), visit.cost)


@dataclass(slots=True)
class _Visit:
    """One visit to a feed."""

    options: CrawlOptions
    session: aiohttp.ClientSession
    feed: FeedVisit
    gate: HostGate
    round_clock: RoundClock
    parsers: ParserPool
    clock: Callable[[], float]
    cost: VisitCost = field(default_factory=VisitCost)

    async def run(self) -> VisitOutcome:
        """Return the outcome. Raises _Postponed, RoundOver and ParseBudgetSpent."""
        answer = None
        try:
            answer = await self._fetch(self.feed.url, decide.conditional_headers(self.feed))
            if decide.is_unchanged(self.feed, answer) and self.feed.memory.read_at is not None:
                return decide.decide_unchanged(self.feed, answer, self.clock(), self.options.schedule, self.cost)
            if answer.status != 200:
                return self._fail(decide.explain_status(answer.status), answer, answer.wire_bytes)
            return await self._read(answer)
        except (FetchFailed, NotAFeed) as error:
            if isinstance(error, FetchTimedOut | ParserLimitExceeded) and not self.options.lane.is_last:
                raise _Postponed from None
            received = (0 if answer is None else answer.wire_bytes) + getattr(error, "wire_bytes", 0)
            return self._fail(error.reason, answer, received)

    def _fail(self, reason: str, answer: FeedResponse | None, wire_bytes: int) -> VisitOutcome:
        schedule = self.options.schedule
        return decide.decide_failed(self.feed, reason, self.clock(), schedule, answer, wire_bytes, self.cost)

    async def _fetch(self, url: str, headers: Mapping[str, str]) -> FeedResponse:
        try:
            async with self.round_clock.fetching():
                limits, timer = self.options.limits, self.round_clock.seconds
                answer = await fetch(self.session, url, headers, self.gate, limits, timer, self.cost.fetch_s)
        except FetchFailed as error:
            self.cost.fetch_s += error.took_s
            raise
        self.cost.fetch_s += answer.took_s
        return answer

    async def _read(self, answer: FeedResponse) -> VisitOutcome:
        """Parse the document; for a page that was added instead of a feed, read the first feed it links to."""
        for _ in range(2):
            try:
                content_type, owner = answer.header("Content-Type"), self.feed.owner
                document = await self.parsers.parse(
                    answer.body, content_type, answer.url, self._rank(), owner, self.cost
                )
                now, schedule = self.clock(), self.options.schedule
                return decide.decide_read(
                    *(self.feed, answer, document, now, schedule, self.cost),
                    webhook_backlog=self.options.webhook_backlog,
                    post_id_key=self.options.post_id_key,
                )
            except NotAFeed as error:
                if not error.feeds or self.feed.memory.read_at is not None:
                    raise
                linked = await self._fetch(error.feeds[0], {})
                if linked.status != 200:
                    raise FetchFailed(
                        f"linked feed {mask_userinfo(linked.url)}: {decide.explain_status(linked.status)}",
                        linked.wire_bytes,
                    ) from None
                answer = replace(linked, wire_bytes=answer.wire_bytes + linked.wire_bytes)
        raise NotAFeed("the linked feed is a page, too")

    def _rank(self) -> int:
        """Return when the document is parsed: feeds that were cheap to read first, those that were expensive last."""
        memory = self.feed.memory
        return 2 if memory.cost.is_expensive else int(memory.read_at is None)
