"""A crawler that may reach servers on loopback."""

from __future__ import annotations

from dataclasses import replace

from tidings.crawl.crawler import Crawler, CrawlOptions
from tidings.crawl.decide import FeedVisit, VisitMemory
from tidings.crawl.fetch import FetchLimits
from tidings.crawl.identity import unpack_known
from tidings.crawl.parser_process import ParserProcess
from tidings.crawl.rate_limit import HostRateLimit
from tidings.net.allowlist import LOOPBACK, AllowedNetworks

BEGIN = 1_790_000_000.0
OPTIONS = CrawlOptions(
    rate_limit=HostRateLimit(min_interval_s=0.0), limits=FetchLimits(seconds=1.5), allow=AllowedNetworks(LOOPBACK)
)


async def visit_all(feeds, options=OPTIONS, now=BEGIN, parser=None):
    """Return the outcome of a visit by feed."""
    process = parser or ParserProcess()
    try:
        crawler = Crawler(options, [process], lambda: now)
        return {outcome.visited.feed: outcome async for outcome in crawler.visit_all(feeds)}
    finally:
        if parser is None:
            process.close()


def feed(url: str, number: int = 1) -> FeedVisit:
    return FeedVisit(number, url, VisitMemory())


def after_visit(visit: FeedVisit, outcome) -> FeedVisit:
    """Return the feed with its state after a visit."""
    known = visit.known if outcome.visited.known is None else unpack_known(outcome.visited.known)
    return replace(visit, url=outcome.visited.url, memory=VisitMemory.from_json(outcome.visited.visit), known=known)
