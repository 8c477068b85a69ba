"""What a crawler costs: a process of its own visits feeds on a local server, twice: new, then unchanged.

``python -m tidings_lab.calibrate_crawl`` is that process: it reads addresses and prints what visiting them took.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import psutil

from tidings.crawl.crawler import Crawler, Manners
from tidings.crawl.decide import Asked, Memory, Outcome
from tidings.crawl.identity import unpacked
from tidings.crawl.parser_process import Parser
from tidings.crawl.rate_limit import Politeness
from tidings.net.allowlist import Allowed
from tidings.provision.costs import Measured
from tidings_lab.history import History, load_history
from tidings_lab.replay import Replay


def crawl_costs(feeds: int, seed: int) -> Measured:
    """Of so many visits to the feeds of the history as they were last."""
    told = asyncio.run(_serve(load_history(seed), feeds))
    how = f"measured: {feeds:,} visits to {told['different']} feeds of the history"
    return {
        "crawl_request_bytes": (told["request_bytes"], how),
        "crawl_unchanged_bytes": (told["unchanged_bytes"], how),
        "crawl_document_bytes": (told["document_bytes"], f"{how}, compressed"),
        "crawl_poll_cpu_s": (told["poll_cpu_s"], how),
        "crawl_document_cpu_s": (max(0.0, told["document_cpu_s"] - told["poll_cpu_s"]), how),
        "crawl_feed_bytes": (told["feed_bytes"], how),
        "crawler_bytes": (told["memory_bytes"], "measured: the process and its parser, after these"),
    }


async def _serve(history: History, feeds: int) -> dict[str, Any]:
    now = max(feed.looks[-1] for feed in history.feeds)
    names = [feed.name for feed in history.feeds]
    async with Replay(history, now).serving() as server:
        urls = [server.url(history.feeds[number % len(names)]) for number in range(feeds)]
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tidings_lab.calibrate_crawl"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        told, _ = await child.communicate(json.dumps(urls).encode())
        found: dict[str, Any] = json.loads(told)
    return {**found, "different": len(names), "request_bytes": server.asked_bytes / (2 * feeds)}


async def _visit(urls: list[str]) -> dict[str, Any]:
    """In the child: all of them new, then all of them unchanged."""
    parser = Parser()
    try:
        first, new_s = await _timed(parser, [Asked(n, url, Memory()) for n, url in enumerate(urls)])
        known = [
            Asked(n, url, Memory.from_json(first[n].visited.visit), unpacked(first[n].visited.known or ""))
            for n, url in enumerate(urls)
        ]
        second, unchanged_s = await _timed(parser, known)
        memory = _memory_bytes()
    finally:
        parser.close()
    assert {one.step for one in first} <= {"read"}, {one.visited.error for one in first}
    assert {one.step for one in second} <= {"unchanged"}
    return {
        "document_cpu_s": new_s / len(urls),
        "poll_cpu_s": unchanged_s / len(urls),
        "document_bytes": sum(one.wire_bytes for one in first) / len(urls),
        "unchanged_bytes": sum(one.wire_bytes for one in second) / len(urls),
        "feed_bytes": sum(len(one.visited.visit) + len(one.visited.known or "") for one in first) / len(urls),
        "memory_bytes": memory,
    }


async def _timed(parser: Parser, feeds: list[Asked]) -> tuple[list[Outcome], float]:
    """The outcomes in order, and processor seconds of this process and its parser."""
    manners = Manners(politeness=Politeness(at_once=100, between_s=0.0), allow=Allowed.parse(["loopback"]))
    before = _cpu_s()
    found = {one.visited.feed: one async for one in Crawler(manners, [parser]).visit_all(feeds)}
    return [found[number] for number in range(len(feeds))], _cpu_s() - before


def _cpu_s() -> float:
    me = psutil.Process()
    return float(sum(sum(one.cpu_times()[:2]) for one in (me, *me.children(recursive=True))))


def _memory_bytes() -> float:
    me = psutil.Process()
    return float(sum(one.memory_full_info().uss for one in (me, *me.children(recursive=True))))


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_visit(json.loads(sys.stdin.read())))))
