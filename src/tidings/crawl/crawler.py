"""Visiting many feeds at once: what a crawler does with its share of a round."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import aiohttp

from tidings.crawl import decide
from tidings.crawl.article import NotAFeed
from tidings.crawl.decide import Asked, Outcome
from tidings.crawl.fetch import Fetched, FetchFailed, Limits, fetch
from tidings.crawl.parser_process import Parser
from tidings.crawl.rate_limit import Gate, Politeness
from tidings.crawl.schedule import Pace
from tidings.net.allowlist import PUBLIC_ONLY, Allowed
from tidings.net.ssrf_guard import USER_AGENT, guarded_session

_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Manners:
    """How feeds are crawled; the same for all crawlers."""

    pace: Pace = field(default_factory=Pace)
    politeness: Politeness = field(default_factory=Politeness)
    limits: Limits = field(default_factory=Limits)
    allow: Allowed = PUBLIC_ONLY
    user_agent: str = USER_AGENT
    at_once: int = _AT_ONCE


@dataclass(slots=True)
class Crawler:
    """The tools of a crawler. The parsers are lent: they may outlive the crawler."""

    manners: Manners
    parsers: Sequence[Parser]
    clock: Callable[[], float] = time.time
    _free: asyncio.LifoQueue[Parser] = field(default_factory=asyncio.LifoQueue)  # the one that was busy last goes first

    def __post_init__(self) -> None:
        for parser in self.parsers:
            self._free.put_nowait(parser)

    async def visit_all(self, feeds: Iterable[Asked]) -> AsyncIterator[Outcome]:
        """The outcomes as they come, each feed once; no feed keeps another from being visited."""
        gate, places = Gate(self.manners.politeness), asyncio.Semaphore(self.manners.at_once)
        session = guarded_session(
            self.manners.allow,
            user_agent=self.manners.user_agent,
            timeout_s=self.manners.limits.seconds,
            connections=2 * self.manners.at_once,
            auto_decompress=False,
        )
        async with session:
            tasks = [asyncio.create_task(self._in_turn(session, one, gate, places)) for one in feeds]
            try:
                for done in asyncio.as_completed(tasks):
                    yield await done
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _in_turn(
        self, session: aiohttp.ClientSession, asked: Asked, gate: Gate, places: asyncio.Semaphore
    ) -> Outcome:
        async with places:
            return await self.visit(session, asked, gate)

    async def visit(self, session: aiohttp.ClientSession, asked: Asked, gate: Gate) -> Outcome:
        """One feed: fetch, and unless it is the same, split it and see what is new."""
        pace, answer, wire_bytes = self.manners.pace, None, 0
        try:
            answer = await fetch(session, asked.url, decide.conditions(asked), gate, self.manners.limits)
            wire_bytes = answer.wire_bytes
            if decide.is_same(asked, answer) and asked.memory.read_at is not None:
                return decide.same(asked, answer, self.clock(), pace)
            if answer.status != 200:
                reason = decide.why(answer.status)
                return decide.failed(asked, reason, self.clock(), pace, answer, wire_bytes)
            return await self._read(session, asked, answer, gate)
        except (FetchFailed, NotAFeed) as error:
            spent = wire_bytes + getattr(error, "wire_bytes", 0)
            return decide.failed(asked, error.reason, self.clock(), pace, answer, spent)

    @asynccontextmanager
    async def _parser(self) -> AsyncIterator[Parser]:
        """One that is free: a parser takes one document at a time."""
        parser = await self._free.get()
        try:
            yield parser
        finally:
            self._free.put_nowait(parser)

    async def _read(self, session: aiohttp.ClientSession, asked: Asked, answer: Fetched, gate: Gate) -> Outcome:
        """Read the document; of a page that was given for a feed never read, read the first feed it points to."""
        for _ in range(2):
            try:
                async with self._parser() as parser:
                    document = await parser.parse(answer.body, answer.header("Content-Type"), answer.url)
                return decide.read(asked, answer, document, self.clock(), self.manners.pace)
            except NotAFeed as error:
                if not error.feeds or asked.memory.read_at is not None:
                    raise
                found = await fetch(session, error.feeds[0], {}, gate, self.manners.limits)
                if found.status != 200:
                    raise FetchFailed(f"its feed {found.url}: {decide.why(found.status)}", found.wire_bytes) from None
                answer = replace(found, wire_bytes=answer.wire_bytes + found.wire_bytes)
        raise NotAFeed("it is a page whose feed is a page")
