"""Crawl benchmark: the recorded history by our schedule, and feeds/s of one machine.

A local server with a simulated clock serves the history; time jumps from visit to visit. A separate process serves a
thousand feeds on loopback addresses; they are crawled like by `tidings crawl`, with rate limits.
"""

from __future__ import annotations

import asyncio
import gzip
import heapq
import os
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from tidings.crawl.crawler import Crawler, CrawlOptions
from tidings.crawl.decide import FeedVisit, VisitMemory, VisitOutcome
from tidings.crawl.identity import unpack_known
from tidings.crawl.lanes import SLOW, Lane
from tidings.crawl.parse import parse
from tidings.crawl.parser_process import ParserProcess
from tidings.crawl.rate_limit import HostGate, HostRateLimit
from tidings.net.allowlist import LOOPBACK, AllowedNetworks
from tidings.net.ssrf_guard import guarded_session
from tidings.store import DueFeed, Store, open_store
from tidings_lab.feed_server import host_address
from tidings_lab.history import FeedHistory, RecordedFeed, load_history
from tidings_lab.progress import Report
from tidings_lab.replay import ReplayServer

FEEDS, HOSTS = 1_000, 500
_WARM_ROUNDS, _WARM_FEEDS = 5, 100  # a crawler runs for weeks, so measure a warm JVM


def measure_crawling(seed: int, quick: bool, repetitions: int, report: Report) -> dict[str, Any]:
    """Measure both."""
    history = load_history(seed)
    measured: dict[str, Any] = {"history": asyncio.run(_crawl_history(history, report)) | {"source": history.source}}
    measured["rate"] = _measure_rate(40 if quick else FEEDS, 20 if quick else HOSTS, repetitions, report)
    return measured


async def _crawl_history(history: FeedHistory, report: Report) -> dict[str, Any]:
    """Visit all feeds by our schedule, from their first to their last recorded visit."""
    parser, spent = ParserProcess(), {"visits": 0, "in_bytes": 0, "articles": 0, "updated": 0}
    sent = set[tuple[str, str]]()
    manners = CrawlOptions(rate_limit=HostRateLimit(min_interval_s=0.0), allow=AllowedNetworks(LOOPBACK))
    delays: list[float] = []
    try:
        async with (
            ReplayServer(history).listen() as server,
            guarded_session(manners.allow, auto_decompress=False) as session,
        ):
            crawler = Crawler(manners, [parser], lambda: server.now)
            due = [(feed.snapshots[0].at, place) for place, feed in enumerate(history.feeds)]
            feeds = [FeedVisit(n + 1, server.url(feed), VisitMemory()) for n, feed in enumerate(history.feeds)]
            published = [{item.link: item.at for item in feed.items} for feed in history.feeds]
            while due:
                server.now, place = heapq.heappop(due)
                outcome = await crawler.visit(session, feeds[place], HostGate(manners.rate_limit))
                feeds[place] = _next_visit(feeds[place], outcome)
                links = {str(post.get("link", "")) for post in outcome.visited.posts}
                delays += [server.now - published[place][link] for link in links & published[place].keys()]
                sent |= {(_path(post.get("link", "")), post.get("title", "")) for post in outcome.visited.posts}
                for name, count in (("visits", 1), ("in_bytes", outcome.wire_bytes), ("updated", outcome.updated)):
                    spent[name] += count
                spent["articles"] += len(outcome.visited.posts)
                if (due_at := outcome.visited.due_at) is not None and server.now < history.feeds[place].visited_at[-1]:
                    heapq.heappush(due, (min(due_at, history.feeds[place].visited_at[-1]), place))
            spent["request_bytes"] = server.request_bytes
    finally:
        parser.close()
    return _summarize(history, spent, sent, delays, report)


def _next_visit(asked: FeedVisit, outcome: VisitOutcome) -> FeedVisit:
    known = asked.known if outcome.visited.known is None else unpack_known(outcome.visited.known)
    return replace(asked, memory=VisitMemory.from_json(outcome.visited.visit), known=known)


def _summarize(
    history: FeedHistory, spent: dict[str, int], sent: set[tuple[str, str]], delays: list[float], report: Report
) -> dict[str, Any]:
    everything = sum(_bytes_of_all_visits(feed, len) for feed in history.feeds)
    packed = sum(_bytes_of_all_visits(feed, lambda document: len(gzip.compress(document, 6))) for feed in history.feeds)
    recorded = sum(len(feed.visited_at) for feed in history.feeds)
    missed = _count_missed(history, sent)
    saved, saved_packed = (1 - spent["in_bytes"] / bytes_ for bytes_ in (everything, packed))
    delays.sort()
    median_s = delays[len(delays) // 2] if delays else 0.0
    report(
        f"  history: {saved:.2%} less than fetching everything, {saved_packed:.2%} less than that compressed "
        f"({spent['visits']:,} visits, {recorded:,} recorded); "
        f"{missed:,} articles missed; median delay {median_s / 60:.0f} min"
    )
    summary: dict[str, Any] = {
        "everything_bytes": everything,
        "everything_compressed_bytes": packed,
        "recorded_visits": recorded,
    }
    summary |= {"saved": saved, "saved_of_compressed": saved_packed, "missed": missed}
    return {**spent, **summary, "median_delay_s": median_s}


def _bytes_of_all_visits(feed: RecordedFeed, size: Callable[[bytes], int]) -> int:
    """Return the bytes of fetching the whole document at every recorded visit."""
    sizes = {snapshot.at: size(snapshot.document) for snapshot in feed.snapshots}
    return sum(sizes[at] for at in map(partial(_snapshot_time, feed), feed.visited_at) if at is not None)


def _snapshot_time(feed: RecordedFeed, visited_at: float) -> float | None:
    number = bisect_right(feed.snapshots, visited_at, key=lambda snapshot: snapshot.at)
    return feed.snapshots[number - 1].at if number else None


def _count_missed(history: FeedHistory, sent: set[tuple[str, str]]) -> int:
    """Count articles of the history that were never sent, neither by link nor by title.

    Links are compared without host and trailing slash: in the history, link and guid of some articles change (a slash,
    a shorter path), and these are one article.
    """
    paths, titles = ({article[field] for article in sent} for field in (0, 1))
    shown = {
        (_path(article.link), article.title)
        for feed in history.feeds
        for snapshot in feed.snapshots
        for article in parse(snapshot.document, "", "http://127.0.0.1/").articles
    }
    return sum(path not in paths and (not title or title not in titles) for path, title in shown)


def _path(link: str) -> str:
    return urlsplit(link).path.rstrip("/") + urlsplit(link).query


def _measure_rate(feeds: int, hosts: int, repetitions: int, report: Report) -> dict[str, Any]:
    """Measure feeds/s of a round in which all feeds are new and of the next, in which none changed (medians)."""
    import tidings
    from tidings.crawl.loop import CrawlLoop
    from tidings.spark.crawl_stage import crawl_round
    from tidings.spark.gateway import choose_master
    from tidings.stream.crawl_app import add_slots

    manners = CrawlOptions(allow=AllowedNetworks(LOOPBACK))
    spark = tidings.session(add_slots(choose_master(None)))
    crawlers = min(spark.sparkContext.defaultParallelism, os.cpu_count() or 1)

    def visit(chosen: Sequence[DueFeed], known: Mapping[int, str], lane: Lane) -> list[VisitOutcome]:
        return crawl_round(spark, chosen, known, manners.in_lane(lane), 1 if lane is SLOW else crawlers)

    seconds_by_kind: dict[str, list[float]] = {"new": [], "unchanged": []}
    articles: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="tidings-bench-crawl-") as name, _feed_server(hosts) as port:
        folder = Path(name)
        with open_store(folder) as store:

            def crawl(urls: list[str]) -> tuple[float, int]:
                return _crawl_round(CrawlLoop(store, folder / "inbox", manners.rate_limit, visit), store, urls)

            for turn in range(_WARM_ROUNDS):
                crawl(_urls(port, min(feeds, _WARM_FEEDS), hosts, f"warm{turn}"))
            for repetition in range(repetitions):
                for kind, seconds in seconds_by_kind.items():
                    took, articles[kind] = crawl(_urls(port, feeds, hosts, f"feed{repetition}"))
                    seconds.append(took)
                    report(f"  {feeds:,} {kind} feeds on {hosts:,} hosts: {feeds / took:,.0f} feeds/s")
            failed = sum(feed.state != "ok" for feed in store.feeds.all())
    rates = {
        kind: {"seconds": seconds, "feeds_per_second": feeds / median(seconds)}
        for kind, seconds in seconds_by_kind.items()
    }
    return {"feeds": feeds, "hosts": hosts, "articles": articles, "failed": failed, **rates}


def _crawl_round(rounds: Any, store: Store, urls: list[str]) -> tuple[float, int]:
    """Make the feeds due and crawl them. Returns the seconds and the number of new articles."""
    import threading

    for url in urls:
        store.feeds.add(url)
    store.database.execute("UPDATE feed SET due_at = 9e18")
    for url in urls:
        store.database.execute("UPDATE feed SET due_at = 0 WHERE url = ?", url)
    start = time.perf_counter()
    tally = rounds.run(threading.Event(), once=True)
    return time.perf_counter() - start, int(tally.articles)


def _urls(port: int, feeds: int, hosts: int, name: str) -> list[str]:
    return [f"http://{host_address(n % hosts)}:{port}/{name}/{n}" for n in range(feeds)]


@contextmanager
def _feed_server(hosts: int) -> Iterator[int]:
    """A server in a separate process; yields its port."""
    command = [sys.executable, "-m", "tidings_lab.feed_server", str(hosts)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield int(server.stdout.readline())
        finally:
            server.terminate()
