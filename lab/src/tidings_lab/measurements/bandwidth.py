"""Bytes of crawling under each filtering level of Cobra, on the real history of feeds.

The crawler visits a local server with a simulated clock at the recorded times. Repeated visits (the same document as
before) are made once and counted as often as they occur, because their responses have the same length.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from tidings.crawl.crawler import Crawler, CrawlOptions
from tidings.crawl.decide import FeedVisit, VisitMemory, VisitOutcome
from tidings.crawl.identity import KnownArticle, unpack_known
from tidings.crawl.parser_process import ParserProcess
from tidings.crawl.rate_limit import HostGate, HostRateLimit
from tidings.net.allowlist import AllowedNetworks
from tidings.net.ssrf_guard import guarded_session
from tidings_lab.datasets import Posts
from tidings_lab.history import FeedHistory, RecordedFeed, load_history
from tidings_lab.replay import ReplayServer
from tidings_lab.runner import Parameters, Row

LEVELS = ("everything", "document hash", "article hash", "conditional")


def steps(parameters: Parameters) -> int:
    return len(LEVELS) * len(parameters["compresses"])


def data(parameters: Parameters, seed: int) -> dict[str, object]:
    return load_history(seed).to_dict()


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """Yield a row per level, with and without compression by the servers."""
    history = load_history(seed)
    for compresses in parameters["compresses"]:
        everything: _Traffic | None = None
        for level in LEVELS:
            traffic = asyncio.run(_crawl(history, level, compresses, parameters["every_nth"]))
            everything = everything or traffic
            reduction = {
                "reduction": 1 - traffic.total / everything.total,
                "reduction_in": 1 - traffic.in_bytes / everything.in_bytes,
            }
            row = {"level": level, "compresses": compresses, **traffic.to_dict(), **reduction}
            yield (
                f"{level}{'' if compresses else ', not compressed'}",
                [{**row, "missed": _count_missed(history, traffic)}],
            )


@dataclass(slots=True)
class _Traffic:
    """Bytes of responses, requests and forwarded articles; the number of articles, and their links and titles."""

    visits: int = 0
    in_bytes: int = 0
    request_bytes: int = 0
    article_bytes: int = 0
    articles: int = 0
    sent: set[str] = field(default_factory=set)

    @property
    def total(self) -> int:
        return self.in_bytes + self.request_bytes + self.article_bytes

    def to_dict(self) -> Row:
        return {
            "visits": self.visits,
            "in_bytes": self.in_bytes,
            "request_bytes": self.request_bytes,
            "article_bytes": self.article_bytes,
            "total_bytes": self.total,
            "visit_bytes": self.total / self.visits,
            "articles": self.articles,
        }

    def add(self, other: _Traffic) -> None:
        for name in ("visits", "in_bytes", "request_bytes", "article_bytes", "articles"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.sent |= other.sent


async def _crawl(history: FeedHistory, level: str, compresses: bool, every_nth: int) -> _Traffic:
    traffic, parser = _Traffic(), ParserProcess()
    try:
        async with ReplayServer(history, compresses=compresses).listen() as server:
            for feed in history.feeds:
                await _Visitor(server, parser, feed, level, traffic).visit_all(feed.visited_at[::every_nth])
    finally:
        parser.close()
    return traffic


class _Visitor:
    """Visits one feed through its history and remembers what the filtering level allows."""

    def __init__(
        self, server: ReplayServer, parser: ParserProcess, feed: RecordedFeed, level: str, traffic: _Traffic
    ) -> None:
        self._server, self._feed, self._level, self._traffic = server, feed, level, traffic
        manners = CrawlOptions(rate_limit=HostRateLimit(min_interval_s=0.0), allow=AllowedNetworks.parse(["loopback"]))
        self._crawler = Crawler(manners, [parser], clock=lambda: server.now)
        self._memory, self._known = VisitMemory(), tuple[KnownArticle, ...]()

    async def visit_all(self, visited_at: list[float]) -> None:
        manners, before, repeated = self._crawler.options, None, None
        async with guarded_session(manners.allow, auto_decompress=False) as session:
            for now in visited_at:
                document = self._feed.document(now)
                if document is None:
                    continue
                if document is not before or repeated is None:
                    traffic = await self._visit(session, now)
                    repeated, before = (traffic if document is before else None), document
                self._traffic.add(traffic)

    async def _visit(self, session: aiohttp.ClientSession, now: float) -> _Traffic:
        """Visit the feed at a time and return the traffic."""
        self._server.now, bytes_before = now, self._server.request_bytes
        visit = FeedVisit(1, self._server.url(self._feed), self._memory, self._known)
        outcome = await self._crawler.visit(session, visit, HostGate(self._crawler.options.rate_limit))
        self._remember(outcome)
        posts = outcome.visited.posts
        return _Traffic(
            visits=1,
            in_bytes=outcome.wire_bytes,
            request_bytes=self._server.request_bytes - bytes_before,
            article_bytes=sum(len(json.dumps(post, ensure_ascii=False).encode()) + 1 for post in posts),
            articles=len(posts),
            sent={name for post in posts for name in _names(str(post.get("link", "")), _title(post))},
        )

    def _remember(self, outcome: VisitOutcome) -> None:
        if self._level == "everything" or outcome.step == "failed":
            return
        memory = VisitMemory.from_json(outcome.visited.visit)
        self._memory = memory if self._level == "conditional" else replace(memory, etag="", last_modified="")
        if self._level != "document hash" and outcome.visited.known is not None:
            self._known = unpack_known(outcome.visited.known)


def _title(post: Mapping[str, Any]) -> str:
    """Return the title; an article without text has it as its text."""
    return str(post.get("title", post["text"]))


def _names(link: str, title: str) -> tuple[str, str]:
    """Return link and title to compare. Links are compared without host, because some feeds moved."""
    parts = urlsplit(link)
    return f"link {parts.path.rstrip('/')}?{parts.query}", f"title {' '.join(title.split()).casefold()}"


def _count_missed(history: FeedHistory, traffic: _Traffic) -> int:
    """Count articles of the history that were never forwarded, neither by link nor by title.

    The history counts by guid. An article that moved or got another guid is one article for the crawler.
    """
    items = [item for feed in history.feeds for item in feed.items]
    return sum(traffic.sent.isdisjoint(_names(item.link, item.title)) for item in items)
