"""What crawling costs in bytes under each of the talk's filtering levels, on the real history of feeds.

The product's crawler visits a local server whose clock is that of the history, whenever the history was really looked
at. Visits that are the same (the same document as at the visit before) are made once, and counted as often as they
occur: an answer is as long the second time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from tidings.crawl.crawler import Crawler, Manners
from tidings.crawl.decide import Asked, Memory, Outcome
from tidings.crawl.identity import KnownArticle, unpacked
from tidings.crawl.parser_process import Parser
from tidings.crawl.rate_limit import Gate, Politeness
from tidings.net.allowlist import Allowed
from tidings.net.ssrf_guard import guarded_session
from tidings_lab.datasets import Posts
from tidings_lab.history import History, PastFeed, load_history
from tidings_lab.replay import Replay
from tidings_lab.runner import Parameters, Row

LEVELS = ("everything", "document hash", "article hash", "conditional")


def steps(parameters: Parameters) -> int:
    return len(LEVELS) * len(parameters["compresses"])


def data(parameters: Parameters, seed: int) -> dict[str, object]:
    return load_history(seed).described()


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """A row for each level, with and without compression by servers."""
    history = load_history(seed)
    for compresses in parameters["compresses"]:
        everything: _Spent | None = None
        for level in LEVELS:
            spent = asyncio.run(_crawl(history, level, compresses, parameters["every_nth"]))
            everything = everything or spent
            less = {"less": 1 - spent.total / everything.total, "less_in": 1 - spent.in_bytes / everything.in_bytes}
            row = {"level": level, "compresses": compresses, **spent.described(), **less}
            yield f"{level}{'' if compresses else ', not compressed'}", [{**row, "missed": _missed(history, spent)}]


@dataclass(slots=True)
class _Spent:
    """Bytes: answers in, requests and articles out; how many articles went on, and which, by link and by title."""

    visits: int = 0
    in_bytes: int = 0
    request_bytes: int = 0
    article_bytes: int = 0
    articles: int = 0
    sent: set[str] = field(default_factory=set)

    @property
    def total(self) -> int:
        return self.in_bytes + self.request_bytes + self.article_bytes

    def described(self) -> Row:
        return {
            "visits": self.visits,
            "in_bytes": self.in_bytes,
            "request_bytes": self.request_bytes,
            "article_bytes": self.article_bytes,
            "total_bytes": self.total,
            "visit_bytes": self.total / self.visits,
            "articles": self.articles,
        }

    def add(self, other: _Spent) -> None:
        for name in ("visits", "in_bytes", "request_bytes", "article_bytes", "articles"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.sent |= other.sent


async def _crawl(history: History, level: str, compresses: bool, every_nth: int) -> _Spent:
    spent, parser = _Spent(), Parser()
    try:
        async with Replay(history, compresses=compresses).serving() as server:
            for feed in history.feeds:
                await _Visitor(server, parser, feed, level, spent).visit_all(feed.looks[::every_nth])
    finally:
        parser.close()
    return spent


class _Visitor:
    """Visits one feed through its history, and remembers of it what its level lets it."""

    def __init__(self, server: Replay, parser: Parser, feed: PastFeed, level: str, spent: _Spent) -> None:
        self._server, self._feed, self._level, self._spent = server, feed, level, spent
        manners = Manners(politeness=Politeness(between_s=0.0), allow=Allowed.parse(["loopback"]))
        self._crawler = Crawler(manners, [parser], clock=lambda: server.now)
        self._memory, self._known = Memory(), tuple[KnownArticle, ...]()

    async def visit_all(self, looks: list[float]) -> None:
        manners, before, repeated = self._crawler.manners, None, None
        async with guarded_session(manners.allow, auto_decompress=False) as session:
            for look in looks:
                document = self._feed.document(look)
                if document is None:
                    continue
                if document is not before or repeated is None:
                    made = await self._visit(session, look)
                    repeated, before = (made if document is before else None), document
                self._spent.add(made)

    async def _visit(self, session: aiohttp.ClientSession, look: float) -> _Spent:
        """A visit at a time, and what it took."""
        self._server.now, asked_before = look, self._server.asked_bytes
        asked = Asked(1, self._server.url(self._feed), self._memory, self._known)
        outcome = await self._crawler.visit(session, asked, Gate(self._crawler.manners.politeness))
        self._remember(outcome)
        posts = outcome.visited.posts
        return _Spent(
            visits=1,
            in_bytes=outcome.wire_bytes,
            request_bytes=self._server.asked_bytes - asked_before,
            article_bytes=sum(len(json.dumps(post, ensure_ascii=False).encode()) + 1 for post in posts),
            articles=len(posts),
            sent={name for post in posts for name in _names(str(post.get("link", "")), _title(post))},
        )

    def _remember(self, outcome: Outcome) -> None:
        if self._level == "everything" or outcome.step == "failed":
            return
        memory = Memory.from_json(outcome.visited.visit)
        self._memory = memory if self._level == "conditional" else replace(memory, etag="", last_modified="")
        if self._level != "document hash" and outcome.visited.known is not None:
            self._known = unpacked(outcome.visited.known)


def _title(post: Mapping[str, Any]) -> str:
    """An article without a text has its title for one."""
    return str(post.get("title", post["text"]))


def _names(link: str, title: str) -> tuple[str, str]:
    """Links are compared without their host: feeds of the history moved, and took their articles along."""
    parts = urlsplit(link)
    return f"link {parts.path.rstrip('/')}?{parts.query}", f"title {' '.join(title.split()).casefold()}"


def _missed(history: History, spent: _Spent) -> int:
    """Articles of the history that never went on, neither under their link nor under their title.

    The history counts by guid; one that moved, or got another guid, is the same to the crawler, and went on once.
    """
    items = [item for feed in history.feeds for item in feed.items]
    return sum(spent.sent.isdisjoint(_names(item.link, item.title)) for item in items)
