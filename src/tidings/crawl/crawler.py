"""Visit many feeds concurrently."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import aiohttp

from tidings.crawl import decide
from tidings.crawl.article import NotAFeed
from tidings.crawl.decide import FeedVisit, VisitOutcome
from tidings.crawl.fetch import FeedResponse, FetchFailed, FetchLimits, fetch
from tidings.crawl.parser_process import ParserProcess
from tidings.crawl.rate_limit import HostGate, HostRateLimit
from tidings.crawl.schedule import SchedulePolicy
from tidings.net.allowlist import PUBLIC_ONLY, AllowedNetworks
from tidings.net.ssrf_guard import USER_AGENT, guarded_session

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


@dataclass(slots=True)
class Crawler:
    """Visits feeds. The parsers belong to the caller."""

    options: CrawlOptions
    parsers: Sequence[ParserProcess]
    clock: Callable[[], float] = time.time
    # the parser used last is used first
    _free: asyncio.LifoQueue[ParserProcess] = field(default_factory=asyncio.LifoQueue)

    def __post_init__(self) -> None:
        for parser in self.parsers:
            self._free.put_nowait(parser)

    async def visit_all(self, feeds: Iterable[FeedVisit]) -> AsyncIterator[VisitOutcome]:
        """Yield an outcome per feed as the visits finish; a slow feed does not delay others."""
        gate, slots = HostGate(self.options.rate_limit), asyncio.Semaphore(self.options.max_connections)
        session = guarded_session(
            self.options.allow,
            user_agent=self.options.user_agent,
            timeout_s=self.options.limits.seconds,
            connections=2 * self.options.max_connections,
            auto_decompress=False,
        )
        async with session:
            tasks = [asyncio.create_task(self._visit_with_slot(session, feed, gate, slots)) for feed in feeds]
            try:
                for done in asyncio.as_completed(tasks):
                    yield await done
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _visit_with_slot(
        self, session: aiohttp.ClientSession, feed_visit: FeedVisit, gate: HostGate, slots: asyncio.Semaphore
    ) -> VisitOutcome:
        async with slots:
            return await self.visit(session, feed_visit, gate)

    async def visit(self, session: aiohttp.ClientSession, feed_visit: FeedVisit, gate: HostGate) -> VisitOutcome:
        """Fetch a feed and, if it changed, find its new articles."""
        schedule, answer, wire_bytes = self.options.schedule, None, 0
        try:
            answer = await fetch(
                session, feed_visit.url, decide.conditional_headers(feed_visit), gate, self.options.limits
            )
            wire_bytes = answer.wire_bytes
            if decide.is_unchanged(feed_visit, answer) and feed_visit.memory.read_at is not None:
                return decide.decide_unchanged(feed_visit, answer, self.clock(), schedule)
            if answer.status != 200:
                reason = decide.explain_status(answer.status)
                return decide.decide_failed(feed_visit, reason, self.clock(), schedule, answer, wire_bytes)
            return await self._read(session, feed_visit, answer, gate)
        except (FetchFailed, NotAFeed) as error:
            received = wire_bytes + getattr(error, "wire_bytes", 0)
            return decide.decide_failed(feed_visit, error.reason, self.clock(), schedule, answer, received)

    @asynccontextmanager
    async def _parser(self) -> AsyncIterator[ParserProcess]:
        """Take a free parser: it parses one document at a time."""
        parser = await self._free.get()
        try:
            yield parser
        finally:
            self._free.put_nowait(parser)

    async def _read(
        self, session: aiohttp.ClientSession, feed_visit: FeedVisit, answer: FeedResponse, gate: HostGate
    ) -> VisitOutcome:
        """Parse the document; for a page that was added instead of a feed, read the first feed it links to."""
        for _ in range(2):
            try:
                async with self._parser() as parser:
                    document = await parser.parse(answer.body, answer.header("Content-Type"), answer.url)
                return decide.decide_read(feed_visit, answer, document, self.clock(), self.options.schedule)
            except NotAFeed as error:
                if not error.feeds or feed_visit.memory.read_at is not None:
                    raise
                linked = await fetch(session, error.feeds[0], {}, gate, self.options.limits)
                if linked.status != 200:
                    raise FetchFailed(
                        f"linked feed {linked.url}: {decide.explain_status(linked.status)}", linked.wire_bytes
                    ) from None
                answer = replace(linked, wire_bytes=answer.wire_bytes + linked.wire_bytes)
        raise NotAFeed("the linked feed is a page, too")
