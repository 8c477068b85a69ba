"""Cost of a crawler: a separate process visits feeds on a local server twice, first new, then unchanged.

`python -m tidings_lab.calibrate_crawl` is that process: it reads URLs and prints what the visits took.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import psutil

from tidings.crawl.crawler import Crawler, CrawlOptions
from tidings.crawl.decide import FeedVisit, VisitMemory, VisitOutcome
from tidings.crawl.identity import unpack_known
from tidings.crawl.parser_process import ParserProcess
from tidings.crawl.rate_limit import HostRateLimit
from tidings.net.allowlist import AllowedNetworks
from tidings.provision.costs import MeasuredCosts
from tidings_lab.history import FeedHistory, load_history
from tidings_lab.replay import ReplayServer


def crawl_costs(feeds: int, seed: int) -> MeasuredCosts:
    """Measure this number of visits to the feeds of the history in their last state."""
    measured = asyncio.run(_serve(load_history(seed), feeds))
    how = f"measured: {feeds:,} visits to {measured['different']} feeds of the history"
    return {
        "crawl_request_bytes": (measured["request_bytes"], how),
        "crawl_unchanged_bytes": (measured["unchanged_bytes"], how),
        "crawl_document_bytes": (measured["document_bytes"], f"{how}, compressed"),
        "crawl_poll_cpu_s": (measured["poll_cpu_s"], how),
        "crawl_document_cpu_s": (max(0.0, measured["document_cpu_s"] - measured["poll_cpu_s"]), how),
        "crawl_feed_bytes": (measured["feed_bytes"], how),
        "crawler_bytes": (measured["memory_bytes"], "measured: the process and its parser after these visits"),
    }


async def _serve(history: FeedHistory, feeds: int) -> dict[str, Any]:
    now = max(feed.visited_at[-1] for feed in history.feeds)
    names = [feed.name for feed in history.feeds]
    async with ReplayServer(history, now).listen() as server:
        urls = [server.url(history.feeds[number % len(names)]) for number in range(feeds)]
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tidings_lab.calibrate_crawl"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await child.communicate(json.dumps(urls).encode())
        found: dict[str, Any] = json.loads(output)
    return {**found, "different": len(names), "request_bytes": server.request_bytes / (2 * feeds)}


async def _visit(urls: list[str]) -> dict[str, Any]:
    """Visit all feeds twice (in the child process): new, then unchanged."""
    parser = ParserProcess()
    try:
        first, new_s = await _visit_timed(parser, [FeedVisit(n, url, VisitMemory()) for n, url in enumerate(urls)])
        known = [
            FeedVisit(n, url, VisitMemory.from_json(first[n].visited.visit), unpack_known(first[n].visited.known or ""))
            for n, url in enumerate(urls)
        ]
        second, unchanged_s = await _visit_timed(parser, known)
        memory = _memory_bytes()
    finally:
        parser.close()
    assert {visit.step for visit in first} <= {"read"}, {visit.visited.error for visit in first}
    assert {visit.step for visit in second} <= {"unchanged"}
    return {
        "document_cpu_s": new_s / len(urls),
        "poll_cpu_s": unchanged_s / len(urls),
        "document_bytes": sum(visit.wire_bytes for visit in first) / len(urls),
        "unchanged_bytes": sum(visit.wire_bytes for visit in second) / len(urls),
        "feed_bytes": sum(len(visit.visited.visit) + len(visit.visited.known or "") for visit in first) / len(urls),
        "memory_bytes": memory,
    }


async def _visit_timed(parser: ParserProcess, feeds: list[FeedVisit]) -> tuple[list[VisitOutcome], float]:
    """Return the outcomes in order and the CPU seconds of this process and its parser."""
    options = CrawlOptions(
        rate_limit=HostRateLimit(max_concurrent=100, min_interval_s=0.0), allow=AllowedNetworks.parse(["loopback"])
    )
    before = _cpu_s()
    visits = {visit.visited.feed: visit async for visit in Crawler(options, [parser]).visit_all(feeds)}
    return [visits[number] for number in range(len(feeds))], _cpu_s() - before


def _cpu_s() -> float:
    process = psutil.Process()
    return float(sum(sum(item.cpu_times()[:2]) for item in (process, *process.children(recursive=True))))


def _memory_bytes() -> float:
    process = psutil.Process()
    return float(sum(item.memory_full_info().uss for item in (process, *process.children(recursive=True))))


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_visit(json.loads(sys.stdin.read())))))
